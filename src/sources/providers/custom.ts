import { z } from 'zod';
import type { BodyReader } from '../../core/body.js';
import { ConfigurationError, EventIdUnusable, SignatureRejection } from '../../core/errors.js';
import { eventId } from '../../core/ids.js';
import { errorText } from '../../core/log/log.js';
import type { EventIdentity, Provider, Verification } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { checkOptionNames, defineSource, type Scheme } from '../define-source.js';
import { eventFields, type EventFields, eventType, type EventsReader } from '../events/event-fields.js';
import { checkValues, eventFieldValues, nameOr, refuseSharedId, retryValues } from '../option-values.js';
import { checkSecretText } from '../signing/secret-check.js';
import { RETRY_OPTIONS, retriesOf, type SenderRetryOptions } from '../retry-options.js';
import type { SourceOptions } from '../source-options.js';

/** A scheme that no HMAC describes: you verify, the rest is as for every source. */
export interface CustomOptions
  extends
    SourceOptions,
    EventFields,
    SenderRetryOptions,
    Partial<
      Pick<
        Provider,
        'name' | 'docs' | 'scheme' | 'signed' | 'toleranceMs' | 'methods' | 'parse' | 'handshake' | 'ack'
      >
    > {
  /**
   * Checks the signature over `request.rawBody` with each secret: true, or the index of the secret and the signed time.
   * False or an error refuses the request with 401. Compare with `timingSafeEqual`.
   */
  readonly verify: (
    request: WebhookRequest,
    secrets: readonly string[],
  ) => boolean | Verification | Promise<boolean | Verification>;
  /** Finds id, type and time of each event. @default by idHeader or idPath, typeHeader or typePath, timePath, eventsPath */
  readonly identify?: (request: WebhookRequest, body: BodyReader) => EventIdentity | readonly EventIdentity[];
}

/**
 * A source with a verification of your own.
 * @throws ConfigurationError for an unknown option, a value that cannot be, or when nothing says what the event's id is
 */
export function custom<TPayload = unknown>(options: CustomOptions): SourceDefinition<TPayload> {
  const name = nameOr('custom', options);
  checkOptionNames(name, options, OWN);
  checkValues(name, options, customValues());
  if (
    options.identify === undefined &&
    options.idHeader === undefined &&
    options.idPath === undefined &&
    options.dedupe === undefined
  )
    throw new ConfigurationError(`${name}: expected identify, idHeader, idPath or dedupe`);
  if (options.identify === undefined) refuseSharedId(name, options);
  return defineSource(schemeOf(name, options), options, OWN);
}

function schemeOf(name: string, options: CustomOptions): Scheme {
  return {
    name,
    docs: options.docs ?? '',
    scheme: options.scheme ?? 'your own',
    signed: options.signed ?? { id: false, type: false, time: false },
    asks: 'application',
    retries: retriesOf(options),
    toleranceMs: options.toleranceMs,
    methods: options.methods,
    parse: options.parse,
    handshake: options.handshake,
    ack: options.ack,
    checkSecret: checkSecretText,
    verify: (request, secrets) => verified(options, request, secrets),
    events: options.identify === undefined ? eventFields(options) : eventsOf(options.identify),
    batched: options.eventsPath !== undefined,
  };
}

/** Any error of the function is a refusal. A bug there must neither answer 500 to a forged request nor accept it. */
async function verified(
  options: CustomOptions,
  request: WebhookRequest,
  secrets: readonly string[],
): Promise<Verification> {
  let result: boolean | Verification;
  try {
    result = await options.verify(request, secrets);
  } catch (error) {
    if (error instanceof SignatureRejection) throw error;
    throw new SignatureRejection('wrong-signature', 'the verify function threw', { cause: error });
  }
  if (result === true) return { secret: 0 };
  if (typeof result === 'object') return result;
  throw new SignatureRejection('wrong-signature', 'the verify function refused');
}

function eventsOf(identify: NonNullable<CustomOptions['identify']>): EventsReader {
  return (request, body) => {
    let events: readonly EventIdentity[];
    try {
      events = [identify(request, body)].flat();
    } catch (error) {
      if (error instanceof EventIdUnusable || error instanceof SignatureRejection) throw error;
      throw new EventIdUnusable(`the identify function threw: ${errorText(error)}`);
    }
    return events.map(({ id, type, occurredAt, body }) => ({
      presetId: () => eventId(id, 'identify'),
      type: eventType(type),
      occurredAt,
      slice: body,
    }));
  };
}

const fn = () => z.custom((value) => typeof value === 'function', { error: 'expected a function' });
const methods = () => z.array(z.string().regex(/^[A-Z]+$/, { error: `expected a method such as 'POST'` }));
const customValues = () =>
  ({
    name: z.string().min(1).optional(),
    docs: z.string().optional(),
    scheme: z.string().optional(),
    signed: z.object({ id: z.boolean(), type: z.boolean(), time: z.boolean() }).optional(),
    toleranceMs: z.number().nonnegative().optional(),
    methods: methods().min(1).optional(),
    parse: fn().optional(),
    handshake: z.object({ methods: methods(), answer: fn(), perform: fn().optional() }).optional(),
    ack: z.object({ status: z.int() }).optional(),
    verify: fn(),
    identify: fn().optional(),
    ...eventFieldValues(),
    ...retryValues(),
  }) satisfies Record<keyof typeof OWN, z.ZodType>;

const OWN = {
  name: true,
  docs: true,
  scheme: true,
  signed: true,
  ...RETRY_OPTIONS,
  toleranceMs: true,
  methods: true,
  parse: true,
  handshake: true,
  ack: true,
  verify: true,
  identify: true,
  idHeader: true,
  idPath: true,
  typeHeader: true,
  typePath: true,
  timePath: true,
  eventsPath: true,
} as const;
