import { z } from 'zod';
import { ConfigurationError } from '../../core/errors.js';
import { headerName } from '../../core/options/schema.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { checkOptionNames, defineSource } from '../define-source.js';
import { eventFields, type EventFields } from '../events/event-fields.js';
import { macScheme, type MacScheme } from '../mac-source.js';
import { checkValues, eventFieldValues, nameOr, refuseSharedId, retryValues } from '../option-values.js';
import type { DigestEncoding } from '../signing/digest.js';
import { type MacAlgorithm, keyOf, type SecretEncoding } from '../signing/mac.js';
import { pairs, single, type PairsFormat } from '../signing/signature-text.js';
import type { TimeUnit } from '../signing/signed-time.js';
import { RETRY_OPTIONS, retriesOf, type SenderRetryOptions } from '../retry-options.js';
import type { SourceOptions } from '../source-options.js';
import { minutes } from '../times.js';

/** An HMAC scheme of your own, or of a vendor that is not in the catalogue. */
export interface HmacOptions extends SourceOptions, EventFields, SenderRetryOptions {
  /** Name of the vendor, for logs and tables. @default 'hmac' */
  readonly name?: string;
  /** Where the vendor describes its scheme. @default '' */
  readonly docs?: string;
  /** Header that holds the signature. */
  readonly signatureHeader: string;
  /** @default 'sha256' */
  readonly algorithm?: MacAlgorithm;
  /** How the signature is written: lower-case hex, padded base64, or base64url without padding. @default 'hex' */
  readonly encoding?: DigestEncoding;
  /** Text before the signature, such as 'sha256='. @default '' */
  readonly prefix?: string;
  /** Where the header is a list of pairs, `t=1700000000,v1=ab12…`: the keys to read. @default the header is the signature */
  readonly pairs?: PairsFormat;
  /** Header that holds the signed timestamp. @default none: no time is signed, and old requests can be sent again */
  readonly timestampHeader?: string;
  /** Unit of the timestamp. @default 'seconds' */
  readonly timestampUnit?: TimeUnit;
  /**
   * The signed text: `${body}` with `${timestamp}`, `${id}` (the `idHeader`), `${method}`, `${url}` (path and query) or `${header:NAME}`
   * around it. @default '${timestamp}.${body}' where there is a timestamp, else '${body}'
   */
  readonly signedPayload?: string;
  /** How the secret becomes the key: as text, or decoded. @default 'text' */
  readonly secretEncoding?: SecretEncoding;
}

/**
 * A source signed by HMAC: `hmac({ secrets, signatureHeader: 'X-Acme-Signature', idHeader: 'X-Acme-Delivery', typeHeader: 'X-Acme-Event' })`.
 * @throws ConfigurationError for an unknown option, a value that cannot be, or when neither id nor `dedupe` says what makes an event one
 */
export function hmac<TPayload = unknown>(options: HmacOptions): SourceDefinition<TPayload> {
  const name = nameOr('hmac', options);
  checkOptionNames(name, options, HMAC_OPTIONS);
  checkValues(name, options, hmacValues());
  const mac = macOf(options);
  check(name, options, mac);
  refuseSharedId(name, options);
  return defineSource(
    {
      ...macScheme(mac, options),
      name,
      docs: options.docs ?? '',
      toleranceMs: mac.timeUnit === undefined ? undefined : minutes(5),
      events: eventFields(options),
      batched: options.eventsPath !== undefined,
      keepHeaders: [options.idHeader ?? [], options.typeHeader ?? [], options.timestampHeader ?? []]
        .flat()
        .map((name) => name.toLowerCase()),
      retries: retriesOf(options),
    },
    options,
    HMAC_OPTIONS,
  );
}

function macOf(options: HmacOptions): MacScheme {
  const hasTime = options.timestampHeader !== undefined || options.pairs?.timestamp !== undefined;
  return {
    algorithm: options.algorithm ?? 'sha256',
    encoding: options.encoding ?? 'hex',
    key: keyOf[options.secretEncoding ?? 'text'],
    signature:
      options.pairs === undefined
        ? single(options.signatureHeader, options.prefix)
        : pairs(options.signatureHeader, options.pairs),
    payload: options.signedPayload ?? (hasTime ? '${timestamp}.${body}' : '${body}'),
    timestampHeader: options.timestampHeader,
    timeUnit: hasTime ? (options.timestampUnit ?? 'seconds') : undefined,
    signedIdHeader: typeof options.idHeader === 'string' ? options.idHeader : undefined,
  };
}

function check(who: string, options: HmacOptions, mac: MacScheme): void {
  if (mac.timeUnit !== undefined && !mac.payload.includes('${timestamp}'))
    throw new ConfigurationError(
      `${who}.signedPayload: expected \${timestamp} in '${mac.payload}'. A timestamp that is not signed proves nothing: leave timestampHeader out.`,
    );
  if (mac.timeUnit === undefined && mac.payload.includes('${timestamp}'))
    throw new ConfigurationError(`${who}.timestampHeader: expected the header that \${timestamp} stands for`);
  if (options.idHeader === undefined && options.idPath === undefined && options.dedupe === undefined)
    throw new ConfigurationError(
      `${who}: expected idHeader, idPath or dedupe: without one, two deliveries of an event look like two events`,
    );
}

const hmacValues = () =>
  ({
    name: z.string().min(1).optional(),
    docs: z.string().optional(),
    signatureHeader: headerName,
    algorithm: z.enum(['sha1', 'sha256', 'sha384', 'sha512']).optional(),
    encoding: z.enum(['hex', 'base64', 'base64url']).optional(),
    prefix: z.string().optional(),
    pairs: z
      .strictObject({
        separator: z.string().min(1).optional(),
        signature: z.string().min(1),
        timestamp: z.string().min(1).optional(),
        spaced: z.boolean().optional(),
      })
      .optional(),
    timestampHeader: headerName.optional(),
    timestampUnit: z.enum(['seconds', 'milliseconds', 'iso8601']).optional(),
    signedPayload: z.string().optional(),
    secretEncoding: z.enum(['text', 'hex', 'base64']).optional(),
    ...eventFieldValues(),
    ...retryValues(),
  }) satisfies Record<keyof typeof HMAC_OPTIONS, z.ZodType>;

/** Names of the options that are not those of every source. */
export const HMAC_OPTIONS = {
  name: true,
  docs: true,
  signatureHeader: true,
  algorithm: true,
  encoding: true,
  prefix: true,
  pairs: true,
  timestampHeader: true,
  timestampUnit: true,
  signedPayload: true,
  secretEncoding: true,
  idHeader: true,
  idPath: true,
  typeHeader: true,
  typePath: true,
  timePath: true,
  eventsPath: true,
  ...RETRY_OPTIONS,
} as const;
