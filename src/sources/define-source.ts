import { BodyReader } from '../core/body.js';
import { ConfigurationError, SignatureRejection } from '../core/errors.js';
import { errorText } from '../core/log/log.js';
import type { EventIdentity, Provider } from '../core/provider.js';
import type { WebhookRequest } from '../core/request.js';
import type { SourceDefinition } from '../core/options/source.js';
import { contentHash } from './events/content-hash.js';
import { checkDedupe, isSignedKey } from './events/dedupe-check.js';
import { dedupeId, type DedupeKey } from './events/dedupe-key.js';
import type { EventsReader, ReceivedEvent } from './events/event-fields.js';
import { refuseUnknownOptions } from './option-names.js';
import { POLICY_NAMES, type SourceOptions } from './source-options.js';

/** A provider without its `identify`, which follows from how it finds its events and from the source's dedupe key. */
export interface Scheme extends Omit<Provider, 'identify'> {
  readonly events: EventsReader;
  /** Whether the signature covers the body. @default true */
  readonly signsBody?: boolean;
  /** Further headers that the signature covers. */
  readonly signsHeaders?: readonly string[];
  /** Whether one body can carry several events. @default false */
  readonly batched?: boolean;
  /** The vendor's name for its secrets. @default 'secrets' */
  readonly secretsOption?: string;
}

/** Names of a provider's own options; a record so that the compiler asks for each. */
export type OwnOptions<TOptions> = Readonly<Record<Exclude<keyof TOptions, keyof SourceOptions>, true>>;

/**
 * Puts a scheme and a source's options together.
 * @throws ConfigurationError for an option that neither the provider nor a source has
 */
export function defineSource<TPayload, TOptions extends SourceOptions>(
  scheme: Scheme,
  options: TOptions,
  own: OwnOptions<TOptions>,
): SourceDefinition<TPayload> {
  checkOptionNames(scheme.name, options, own);
  if (!Array.isArray(options.secrets) && typeof options.secrets !== 'function')
    throw new ConfigurationError(
      `${scheme.name}.${scheme.secretsOption ?? 'secrets'}: expected an array of texts or a function, received ${typeof options.secrets}`,
    );
  const policies = Object.fromEntries(Object.entries(options).filter(([name]) => POLICY_NAMES.has(name)));
  return { ...policies, secrets: options.secrets, provider: providerOf(scheme, options.dedupe) };
}

/**
 * For providers that check their options before `defineSource` does, so that a mistyped name is reported before a missing option.
 * @throws ConfigurationError
 */
export function checkOptionNames(provider: string, options: object, own: object): void {
  refuseUnknownOptions(provider, options, ['secrets', 'dedupe', ...POLICY_NAMES, ...Object.keys(own)]);
}

function providerOf(scheme: Scheme, dedupe: DedupeKey = 'preset'): Provider {
  const { signsBody = true, signsHeaders = [], batched = false } = scheme;
  checkDedupe(scheme.name, dedupe, batched);
  // Named one by one: a scheme may carry more than a provider shows.
  return {
    name: scheme.name,
    docs: scheme.docs,
    scheme: scheme.scheme,
    signed: {
      ...scheme.signed,
      id: isSignedKey(dedupe, { preset: scheme.signed.id, body: signsBody, headers: signsHeaders }),
    },
    // By a key of the user's choice, events that differ are one on purpose.
    retries: dedupe === 'preset' ? scheme.retries : { ...scheme.retries, changes: undefined },
    toleranceMs: scheme.toleranceMs,
    timeUnit: scheme.timeUnit,
    types: scheme.types,
    maxBytes: scheme.maxBytes,
    keepHeaders: scheme.keepHeaders,
    secretHeaders: scheme.secretHeaders,
    asks: scheme.asks,
    methods: scheme.methods,
    parse: scheme.parse,
    handshake: scheme.handshake,
    ack: scheme.ack,
    refusal: scheme.refusal,
    ackTimeoutMs: scheme.ackTimeoutMs,
    notes: scheme.notes,
    checkSecret: scheme.checkSecret,
    doubtSecret: scheme.doubtSecret,
    checkHead: scheme.checkHead && ((head) => scheme.checkHead!(head)),
    verify: (request, secrets) => scheme.verify(request, secrets),
    identify: (request, body) => identitiesOf(scheme, dedupe, request, body),
  };
}

function identitiesOf(
  scheme: Scheme,
  dedupe: DedupeKey,
  request: WebhookRequest,
  body: BodyReader,
): EventIdentity[] {
  const events = scheme.events(request, body);
  return events.map((event) => {
    const { type, occurredAt, slice } = event;
    const part = slice === undefined ? body : new BodyReader(slice);
    const isItem = slice !== undefined || events.length > 1;
    return { type, occurredAt, body: slice, ...idOf(dedupe, event, request, part, isItem) };
  });
}

/** @throws EventIdUnusable, unless it is an item of a batch: the others are not to be lost with it */
function idOf(
  dedupe: DedupeKey,
  event: ReceivedEvent,
  request: WebhookRequest,
  part: BodyReader,
  isItem: boolean,
): Pick<EventIdentity, 'id' | 'unusable'> {
  try {
    return { id: dedupe === 'preset' ? event.presetId() : dedupeId(dedupe, event, request, part) };
  } catch (error) {
    if (!isItem || error instanceof SignatureRejection) throw error;
    return { id: contentHash(part, 'body'), unusable: errorText(error) };
  }
}
