import type { Provider } from '../core/provider.js';
import { RequestHeaders, type WebhookRequest } from '../core/request.js';
import type { Source } from '../core/resolve-source.js';
import { bodyVariants } from './body.variants.js';

export type DiagnosisCode =
  | 'missing-header'
  | 'clock-skew'
  | 'other-source'
  | 'other-secret'
  | 'secret-format'
  | 'rewritten-body'
  | 'wrong-encoding'
  | 'compressed'
  | 'wrong-secret'
  | 'key-trouble'
  | 'unusable-event-id'
  | 'unexplained';

/** What is most likely wrong with a request that was not believed. */
export interface Diagnosis {
  readonly code: DiagnosisCode;
  /** A sentence for a person, with what to do. Never holds a secret or a signature. */
  readonly explanation: string;
}

interface Rejected {
  readonly reason: string;
  readonly detail: string;
  readonly request: WebhookRequest;
}

/** Explains a rejection by trying what would have made it right. Costs a bounded number of hashes over the body. */
export async function diagnose(
  rejected: Rejected,
  source: Source,
  sources: Iterable<Source>,
): Promise<Diagnosis> {
  const { reason, detail } = rejected;
  if (reason === 'outside-window') return { code: 'clock-skew', explanation: detail };
  if (reason === 'key-unavailable' || reason === 'unusable-key')
    return { code: 'key-trouble', explanation: detail };
  // The signature was right.
  if (reason === 'unusable-event-id')
    return {
      code: reason,
      explanation: `${detail}. Which field or header it is, says the source: idPath, idHeader or dedupe.`,
    };
  const others = [...sources].filter((one) => one.name !== source.name);
  const found = await belongsElsewhere(rejected.request, source, others);
  if (found !== undefined) return found;
  if (reason.startsWith('missing-')) return missing(rejected);
  return (isMac(source.provider) && (await nearlyRight(rejected.request, source))) || unexplained(rejected);
}

async function belongsElsewhere(
  request: WebhookRequest,
  source: Source,
  others: readonly Source[],
): Promise<Diagnosis | undefined> {
  for (const other of others) {
    if (!isMac(other.provider)) continue;
    const secrets = fixedSecrets(other);
    if (await verifies(other.provider, request, secrets)) {
      return {
        code: 'other-source',
        explanation:
          `The request is right for source '${other.name}', secret and scheme: the sender has the URL of '${source.name}'. ` +
          `Give it the URL of '${other.name}'.`,
      };
    }
    if (isMac(source.provider) && (await verifies(source.provider, request, secrets))) {
      return {
        code: 'other-secret',
        explanation: `The signature was made with a secret of source '${other.name}': the secrets of the two are swapped, or both share one endpoint.`,
      };
    }
  }
  return undefined;
}

async function nearlyRight(request: WebhookRequest, source: Source): Promise<Diagnosis | undefined> {
  const { provider } = source;
  const secrets = fixedSecrets(source);
  const text = await firstRight(secretVariants(secrets), ([, variant]) =>
    verifies(provider, request, variant),
  );
  if (text !== undefined) {
    return {
      code: 'secret-format',
      explanation: `The secret is right ${text[0]}: correct the configured text.`,
    };
  }
  const body = await firstRight(bodyVariants(request.rawBody), ({ bytes }) =>
    verifies(provider, { ...request, rawBody: bytes }, secrets),
  );
  if (body !== undefined) {
    return {
      code: 'rewritten-body',
      explanation:
        `The signature is right for the same body ${body.what}: something on the way (a proxy, a gateway, a body parser in front of ` +
        `this application) reads the body and writes it again. Have it pass the bytes through.`,
    };
  }
  const header = await firstRight(headerVariants(request.headers), ({ headers }) =>
    verifies(provider, { ...request, headers }, secrets),
  );
  if (header !== undefined) {
    return {
      code: 'wrong-encoding',
      explanation: `The signature is right, but header '${header.name}' carries it ${header.what}: correct the sender, or the source's encoding and prefix.`,
    };
  }
  return undefined;
}

function unexplained({ reason, detail, request }: Rejected): Diagnosis {
  const encoding = request.headers.first('content-encoding');
  if (encoding !== undefined) {
    return {
      code: 'compressed',
      explanation: `The body came with Content-Encoding ${shown(encoding)}: the sender may have signed it before it was compressed, or a proxy compressed it.`,
    };
  }
  if (reason === 'wrong-signature') {
    return {
      code: 'wrong-secret',
      explanation:
        'No secret of this or another source made the signature, for this body or a rewritten one: the sender has another secret ' +
        '(compare what the provider shows with what is configured), or the request is forged.',
    };
  }
  return { code: 'unexplained', explanation: detail };
}

function missing({ detail, request }: Rejected): Diagnosis {
  const names = [...new Set(request.headers.entries().map(([name]) => name))];
  const alike = names.filter((name) => /sign|hmac|digest|timestamp|webhook/.test(name)).map(shown);
  const came =
    alike.length > 0
      ? `Of such headers these came: ${alike.slice(0, 8).join(', ')}.`
      : 'No header that looks like a signature came: the sender does not sign, a proxy drops its headers, or this is no webhook.';
  return { code: 'missing-header', explanation: `${detail}. ${came}` };
}

/** Whether trying variants costs only hashes: other schemes may fetch keys over the network. */
function isMac(provider: Provider): boolean {
  return /hmac/i.test(provider.scheme);
}

function fixedSecrets(source: Source): readonly string[] {
  return typeof source.secrets === 'function' ? [] : source.secrets;
}

async function verifies(
  provider: Provider,
  request: WebhookRequest,
  secrets: readonly string[],
): Promise<boolean> {
  if (secrets.length === 0) return false;
  try {
    await provider.verify(request, secrets);
    return true;
  } catch {
    return false;
  }
}

async function firstRight<T>(
  candidates: readonly T[],
  isRight: (candidate: T) => Promise<boolean>,
): Promise<T | undefined> {
  for (const candidate of candidates) if (await isRight(candidate)) return candidate;
  return undefined;
}

function secretVariants(secrets: readonly string[]): [string, string[]][] {
  return [
    ['without the white space around it', secrets.map((secret) => secret.trim())],
    ['with a line break at its end', secrets.map((secret) => `${secret}\n`)],
    ['without the quotes around it', secrets.map((secret) => secret.replace(/^(["'])(.*)\1$/, '$2'))],
    ['without its prefix', secrets.map((secret) => secret.replace(/^whsec_/, ''))],
    ['with the prefix whsec_', secrets.map((secret) => `whsec_${secret}`)],
  ];
}

interface HeaderVariant {
  readonly name: string;
  readonly what: string;
  readonly headers: RequestHeaders;
}

const HEX = /^(?:[0-9a-fA-F]{2}){20,64}$/;
const BASE64 = /^[\w+/-]{26,90}={0,2}$/;
const MAX_HEADERS = 4;

function headerVariants(headers: RequestHeaders): HeaderVariant[] {
  const entries = headers.entries();
  return entries
    .flatMap(([name, value], index) => {
      const [, prefix = '', text = ''] = /^((?:sha\d+|v\d|hmac)[=:,])?(.*)$/.exec(value.trim()) ?? [];
      return HEX.test(text) || BASE64.test(text) ? [{ name, prefix, text, index }] : [];
    })
    .slice(0, MAX_HEADERS)
    .flatMap(({ name, prefix, text, index }) =>
      textVariants(prefix, text).map(([what, value]) => {
        const changed = entries.with(index, [name, value]);
        return { name, what, headers: RequestHeaders.fromRaw(changed.flat()) };
      }),
    );
}

function textVariants(prefix: string, text: string): [string, string][] {
  const encodings: [string, string][] = HEX.test(text)
    ? [
        ['', text],
        [' in capitals', text.toLowerCase()],
        [' as hex', Buffer.from(text, 'hex').toString('base64')],
        [' as hex', Buffer.from(text, 'hex').toString('base64url')],
      ]
    : [
        ['', text],
        [' as base64', Buffer.from(text, 'base64').toString('hex')],
        [' in the other base64', Buffer.from(text, 'base64').toString('base64')],
        [' in the other base64', Buffer.from(text, 'base64').toString('base64url')],
      ];
  return encodings.flatMap(([what, value]): [string, string][] => [
    [`${prefix === '' ? 'without a prefix' : `with the prefix '${prefix}'`}${what}`, `sha256=${value}`],
    [`${prefix === '' ? 'bare' : `with the prefix '${prefix}'`}${what}`, value],
    [`with a prefix of its own${what}`, `${prefix}${value}`],
  ]);
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 60));
}
