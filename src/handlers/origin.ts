import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { ConfigurationError } from '../core/errors.js';

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
