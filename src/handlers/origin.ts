import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { ConfigurationError } from '../core/errors.js';
import { headOf } from '../core/event.js';

/** Where in the application a decorator was found. */
export interface Origin {
  /** `Class.method @Decorator('name')`. */
  readonly at: string;
  /** The method: the same one where a class is provided twice. */
  readonly code: object;
  readonly module: string;
}

export function originOf({ host }: InstanceWrapper, code: object, at: string): Origin {
  return { at, code, module: host?.name ?? 'unknown' };
}

/**
 * @param what was found twice, as the beginning of a sentence
 * @param remedy for two methods; that of one class provided twice is always the same
 */
export function foundTwice(what: string, first: Origin, second: Origin, remedy: string): ConfigurationError {
  const isOne = first.code === second.code && first.at === second.at;
  const places = [first, second].map(({ at, module }) => `${at} in ${module}`).join(' and ');
  return new ConfigurationError(
    `${what}: ${places}. ` + (isOne ? 'Provide the class in one module only, and export it there' : remedy),
  );
}

/** As `webhook_outbox.name` holds them. */
const MAX_NAME_BYTES = 255;

/**
 * @param taken the work that has the name already
 * @throws ConfigurationError when there is one, or when the name is longer than a row can hold
 */
export function checkName(
  name: string,
  work: { readonly origin: Origin },
  taken: { readonly origin: Origin } | undefined,
): void {
  const { at } = work.origin;
  const bytes = Buffer.byteLength(name);
  if (bytes > MAX_NAME_BYTES) {
    throw new ConfigurationError(
      `${at}: expected a full name (source/name) of at most ${MAX_NAME_BYTES} bytes, received ${bytes}: '${headOf(name, 60)}…'; ` +
        `give the handler a shorter \`name\``,
    );
  }
  if (taken === work) {
    throw new ConfigurationError(
      `${at}: expected former names in \`was\`, each once, received '${name}' twice`,
    );
  }
  if (taken !== undefined) {
    throw foundTwice(
      `'${name}' is registered twice`,
      taken.origin,
      work.origin,
      'Names of handlers, former ones too, are unique for a source, and names of effects for an application: rename one of them',
    );
  }
}
