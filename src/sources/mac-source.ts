import { ConfigurationError, SignatureRejection } from '../core/errors.js';
import type { Verification } from '../core/provider.js';
import type { WebhookRequest } from '../core/request.js';
import { defineSource, type Scheme } from './define-source.js';
import { isSignedKey } from './events/dedupe-check.js';
import { eventFields, type HeaderName, type KeyedFields } from './events/event-fields.js';
import { verifyMac, type Mac } from './signing/mac.js';
import { checkSecretText } from './signing/secret-check.js';
import type { SignatureReader } from './signing/signature-text.js';
import { signedTime, type TimeUnit } from './signing/signed-time.js';
import type { SourceFactory } from './source-options.js';

/**
 * The signed text of a vendor, as a template: `${timestamp}.${body}`. Names: `body`, `timestamp`, `id`, `method`, `url` (path and query as
 * received) and `header:NAME`.
 */
export type PayloadTemplate = string;

/** An HMAC over a template. Most vendors use one. */
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
  /** @default what `signature` refuses; to be said where a handshake has no signature */
  readonly checkHead?: Scheme['checkHead'];
}

/** A line of the table of vendors: scheme, event fields and facts. */
export interface MacProvider
  extends MacScheme, KeyedFields, Omit<Scheme, keyof MacFacts | 'events' | 'batched'> {}

/** The provider's parts that follow from an HMAC scheme. */
type MacFacts = Pick<
  Scheme,
  'verify' | 'checkHead' | 'checkSecret' | 'scheme' | 'signed' | 'signsHeaders' | 'timeUnit'
>;

/** A vendor's function from its line of the table. */
export function macSource(provider: MacProvider): SourceFactory {
  const scheme = macProvider(provider);
  return (options) => defineSource(scheme, options, {});
}

/** The scheme of a line of the table, for vendors with options of their own. */
export function macProvider(provider: MacProvider): Scheme {
  return {
    ...provider,
    ...macScheme(provider, provider),
    events: eventFields(provider),
    batched: provider.eventsPath !== undefined,
    keepHeaders: [
      ...[provider.idHeader ?? [], provider.typeHeader ?? []].flat().map((name) => name.toLowerCase()),
      ...(provider.keepHeaders ?? []),
    ],
  };
}

/** The parts that follow from an HMAC scheme: its check, its description, and the facts that it covers. */
export function macScheme(mac: MacScheme, fields: KeyedFields): MacFacts {
  const payload = new SignedPayload(mac.payload);
  const headers = payload.headers;
  if (payload.uses('id') && mac.signedIdHeader !== undefined) headers.push(mac.signedIdHeader.toLowerCase());
  const covers = (header: HeaderName = []) =>
    [header].flat().every((one) => headers.includes(one.toLowerCase()));
  return {
    verify: macVerifier(mac),
    checkHead: mac.checkHead ?? ((head) => void mac.signature(head)),
    checkSecret: (secret) =>
      checkSecretText(secret) ??
      (mac.key(secret) === undefined ? 'is not in the encoding that the vendor hands out' : undefined),
    scheme: `HMAC-${mac.algorithm.toUpperCase()}, ${mac.encoding}, of \`${mac.payload}\``,
    signed: {
      id:
        covers(fields.idHeader) &&
        isSignedKey(fields.idKey ?? 'preset', { preset: true, body: true, headers }),
      type: covers(fields.typeHeader),
      time: mac.timeUnit !== undefined,
    },
    signsHeaders: headers,
    timeUnit: mac.timeUnit,
  };
}

/** Checks a request against an HMAC scheme. */
export function macVerifier(
  mac: MacScheme,
): (request: WebhookRequest, secrets: readonly string[]) => Verification {
  const payload = new SignedPayload(mac.payload);
  return (request, secrets) => {
    const { signatures, timestamp: inHeader } = mac.signature(request);
    const timestamp = mac.timestampHeader === undefined ? inHeader : request.headers.one(mac.timestampHeader);
    const signedAt = mac.timeUnit === undefined ? undefined : signedTime(timestamp, mac.timeUnit);
    if (mac.refuseEmptyBody === true && request.rawBody.length === 0)
      throw new SignatureRejection('malformed-signature', 'the vendor never sends an empty body');
    const id = mac.signedIdHeader === undefined ? undefined : request.headers.one(mac.signedIdHeader);
    const content = payload.render(request, { timestamp, id });
    return { secret: verifyMac(mac, content, signatures, secrets), signedAt };
  };
}

/** Values that the template's `${timestamp}` and `${id}` stand for. */
interface PayloadValues {
  readonly timestamp?: string;
  readonly id?: string;
}
type Part = string | { readonly name: string };

/** A template taken apart once, at boot. */
class SignedPayload {
  private readonly parts: readonly Part[];

  /** @throws ConfigurationError for an unknown name, or a template without `${body}` */
  constructor(readonly template: PayloadTemplate) {
    this.parts = parse(template);
    if (!this.uses('body'))
      throw new ConfigurationError(
        `signedPayload: expected a template with \${body}, received '${template}'. A signature that leaves the body out authenticates any body.`,
      );
  }

  uses(name: string): boolean {
    return this.parts.some((part) => typeof part !== 'string' && part.name === name);
  }

  /** Names of the headers that the signature covers, in lower case. */
  get headers(): string[] {
    return this.parts.flatMap((part) =>
      typeof part !== 'string' && part.name.startsWith('header:') ? [part.name.slice(7).toLowerCase()] : [],
    );
  }

  /**
   * The bytes to be signed, in order.
   * @throws SignatureRejection when a value is missing
   */
  render(request: WebhookRequest, values: PayloadValues): readonly (string | Buffer)[] {
    return this.parts.map((part) => (typeof part === 'string' ? part : valueOf(part.name, request, values)));
  }
}

function parse(template: string): Part[] {
  // Odd positions are names: 'a${b}c' splits into a, b, c.
  return template.split(/\$\{([^}]*)\}/).flatMap((text, i): Part[] => {
    if (i % 2 === 0) return text === '' ? [] : [text];
    if (/^(?:body|timestamp|id|method|url|header:[!-~]+)$/.test(text)) return [{ name: text }];
    throw new ConfigurationError(
      `signedPayload: expected one of \${body}, \${timestamp}, \${id}, \${method}, \${url}, \${header:NAME}, received '\${${text}}'`,
    );
  });
}

function valueOf(name: string, request: WebhookRequest, values: PayloadValues): string | Buffer {
  if (name === 'body') return request.rawBody;
  if (name === 'method') return request.method;
  if (name === 'url') return request.url;
  if (name === 'timestamp') return present(values.timestamp, 'timestamp');
  if (name === 'id') return present(values.id, 'id');
  return present(request.headers.one(name.slice(7)), name);
}

function present(value: string | undefined, name: string): string {
  if (value === undefined || value === '')
    throw new SignatureRejection(
      'missing-signature',
      `the signature covers ${name}, and the request has none`,
    );
  return value;
}
