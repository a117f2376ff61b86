import { ConfigurationError } from '../../core/errors.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { checkOptionNames, defineSource } from '../define-source.js';
import { eventFields, type EventFields } from '../events/event-fields.js';
import { macScheme, type MacScheme } from '../mac-source.js';
import { checkValues, eventFieldValues, refuseSharedId } from '../option-values.js';
import { textKey } from '../signing/mac.js';
import { pairs, single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { minutes } from '../times.js';

/** Options of `convoy()`. */
export interface ConvoyOptions extends SourceOptions, EventFields {
  /** `advanced` signs a time, `simple` the body alone; the project's setting. @default 'advanced' */
  readonly mode?: 'simple' | 'advanced';
  /** The project's hash. @default 'SHA256' */
  readonly hash?: 'SHA256' | 'SHA512';
  /** The project's encoding. @default 'hex' */
  readonly encoding?: 'hex' | 'base64';
}

/**
 * Convoy, and vendors that send through it. The secret is the endpoint's. Convoy adds no event id to the body: say where
 * the sender's is, or choose `dedupe`.
 * @see https://docs.getconvoy.io/product-manual/signatures
 * @throws ConfigurationError for an unknown option, or when nothing says what the event's id is
 */
export function convoy<TPayload = unknown>(options: ConvoyOptions): SourceDefinition<TPayload> {
  checkOptionNames('convoy', options, OWN);
  checkValues('convoy', options, eventFieldValues());
  if (options.idHeader === undefined && options.idPath === undefined && options.dedupe === undefined)
    throw new ConfigurationError(
      'convoy: expected idHeader, idPath or dedupe, since the body is the sender’s own',
    );
  refuseSharedId('convoy', options);
  const mac = macOf(options);
  return defineSource(
    {
      ...macScheme(mac, options),
      name: 'convoy',
      docs: 'https://docs.getconvoy.io/product-manual/signatures',
      toleranceMs: mac.timeUnit === undefined ? undefined : minutes(5),
      batched: options.eventsPath !== undefined,
      events: eventFields(options),
      retries: { automatic: true, sameBytes: false, changes: [] },
      notes: {
        id: 'where the sender puts it: `idHeader` or `idPath`',
        more: 'mode, hash and encoding are the sender’s settings',
        unconfirmed: 'retries',
      },
    },
    options,
    OWN,
  );
}

function macOf({ mode = 'advanced', hash = 'SHA256', encoding = 'hex' }: ConvoyOptions): MacScheme {
  if (
    !['simple', 'advanced'].includes(mode) ||
    !['SHA256', 'SHA512'].includes(hash) ||
    !['hex', 'base64'].includes(encoding)
  )
    throw new ConfigurationError(
      `convoy: expected mode simple or advanced, hash SHA256 or SHA512, encoding hex or base64, received ${mode}, ${hash}, ${encoding}`,
    );
  const base = { algorithm: hash === 'SHA256' ? 'sha256' : 'sha512', encoding, key: textKey } as const;
  if (mode === 'simple') return { ...base, signature: single('X-Convoy-Signature'), payload: '${body}' };
  return {
    ...base,
    signature: pairs('X-Convoy-Signature', { signature: 'v1', timestamp: 't' }),
    payload: '${timestamp},${body}',
    timeUnit: 'seconds',
  };
}

const OWN = {
  mode: true,
  hash: true,
  encoding: true,
  idHeader: true,
  idPath: true,
  typeHeader: true,
  typePath: true,
  timePath: true,
  eventsPath: true,
} as const;
