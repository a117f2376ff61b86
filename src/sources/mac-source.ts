import { SignatureRejection } from '../core/errors.js';
import type { Verification } from '../core/provider.js';
import type { WebhookRequest } from '../core/request.js';
import { defineSource, type Scheme } from './define-source.js';
import { eventFields, type EventFields, type HeaderName } from './events/event-fields.js';
import { verifyMac, type Mac } from './signing/mac.js';
import { checkSecretText } from './signing/secret-check.js';
import { SignedPayload, type PayloadTemplate } from './signing/signed-payload.js';
import type { SignatureReader } from './signing/signature-text.js';
import { signedTime, type TimeUnit } from './signing/signed-time.js';
import type { SourceFactory, SourceOptions } from './source-options.js';

/** An HMAC over a template: what most vendors have. */
export interface MacScheme extends Mac {
  readonly signature: SignatureReader;
  readonly payload: PayloadTemplate;
  /** Header that holds the signed timestamp, where the signature header does not. */
  readonly timestampHeader?: string;
  /** Unit of the signed timestamp. Undefined when no time is signed. */
  readonly timeUnit?: TimeUnit;
  /** Header that the template's `${id}` stands for. */
  readonly signedIdHeader?: string;
  /** Whether an empty body is refused: the vendor never sends one. */
  readonly refuseEmptyBody?: boolean;
}

/** A line of the table of vendors: scheme, event fields and facts. */
export interface MacProvider
  extends MacScheme, EventFields, Omit<Scheme, keyof ReturnType<typeof macScheme> | 'events' | 'batched'> {}

/** A vendor's function from its line of the table. */
export function macSource<TOptions extends SourceOptions = SourceOptions>(
  provider: MacProvider,
): SourceFactory<TOptions> {
  const scheme: Scheme = {
    ...provider,
    ...macScheme(provider, provider),
    events: eventFields(provider),
    batched: provider.eventsPath !== undefined,
  };
  return (options) => defineSource(scheme, options, {} as never);
}

/** What follows from an HMAC scheme: how to verify, its description, and which facts it covers. */
export function macScheme(
  mac: MacScheme,
  fields: EventFields,
): Pick<Scheme, 'verify' | 'checkSecret' | 'scheme' | 'signed' | 'signsHeaders'> {
  const payload = new SignedPayload(mac.payload);
  const headers = payload.headers;
  if (payload.uses('id') && mac.signedIdHeader !== undefined) headers.push(mac.signedIdHeader.toLowerCase());
  const covers = (header: HeaderName = []) =>
    [header].flat().every((one) => headers.includes(one.toLowerCase()));
  return {
    verify: (request, secrets) => verify(mac, payload, request, secrets),
    checkSecret: (secret) =>
      checkSecretText(secret) ??
      (mac.key(secret) === undefined ? 'is not in the encoding that the vendor hands out' : undefined),
    scheme: `HMAC-${mac.algorithm.toUpperCase()}, ${mac.encoding}, of \`${mac.payload}\``,
    signed: {
      id: covers(fields.idHeader),
      type: covers(fields.typeHeader),
      time: mac.timeUnit !== undefined,
    },
    signsHeaders: headers,
  };
}

function verify(
  mac: MacScheme,
  payload: SignedPayload,
  request: WebhookRequest,
  secrets: readonly string[],
): Verification {
  const { signatures, timestamp: inHeader } = mac.signature(request);
  const timestamp = mac.timestampHeader === undefined ? inHeader : request.headers.one(mac.timestampHeader);
  const signedAt = mac.timeUnit === undefined ? undefined : signedTime(timestamp, mac.timeUnit);
  if (mac.refuseEmptyBody === true && request.rawBody.length === 0)
    throw new SignatureRejection('malformed-signature', 'the vendor never sends an empty body');
  const id = mac.signedIdHeader === undefined ? undefined : request.headers.one(mac.signedIdHeader);
  const content = payload.render(request, { timestamp, id });
  return { secret: verifyMac(mac, content, signatures, secrets), signedAt };
}
