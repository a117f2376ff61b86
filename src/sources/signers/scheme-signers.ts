import type { HmacOptions } from '../providers/hmac.js';
import type { UntypedOptions } from '../registry.js';
import { hmac, timestampOf, type Signing, type VendorRequest, type VendorSigner } from './signer.js';

/** A source whose scheme follows from the options that it was configured with. */
function schemeSigner(provider: string, schemeOf: (options: UntypedOptions) => HmacOptions): VendorSigner {
  return {
    provider,
    secret: `${provider}-signing-key`,
    type: 'thing.made',
    signsTime: true,
    body: ({ id, type, options }) => JSON.stringify(sampleBody(schemeOf(options), id, type)),
    sign: (body, signing) => signedBy(schemeOf(signing.options), body, signing),
  };
}

/** The names of the options are those of `hmac()`, which has checked their values. */
const hmacOf = (options: UntypedOptions) => options as UntypedOptions & HmacOptions;

function convoyOf(options: UntypedOptions): HmacOptions {
  const { mode = 'advanced', hash = 'SHA256' } = options;
  const timed = { pairs: { signature: 'v1', timestamp: 't' }, signedPayload: '${timestamp},${body}' };
  return {
    ...hmacOf(options),
    signatureHeader: 'X-Convoy-Signature',
    algorithm: hash === 'SHA256' ? 'sha256' : 'sha512',
    ...(mode === 'advanced' ? timed : {}),
  };
}

function signedBy(scheme: HmacOptions, body: Buffer, signing: Signing): VendorRequest {
  const headers = eventHeaders(scheme, signing);
  const isTimed = scheme.timestampHeader !== undefined || scheme.pairs?.timestamp !== undefined;
  const timestamp = timestampOf(signing.at, scheme.timestampUnit ?? 'seconds');
  const template = scheme.signedPayload ?? (isTimed ? '${timestamp}.${body}' : '${body}');
  const content = rendered(
    template,
    { ...signing, headers: { ...headers, ...signing.headers } },
    body,
    timestamp,
  );
  const { algorithm = 'sha256', encoding = 'hex', secretEncoding = 'text' } = scheme;
  const key = Buffer.from(signing.keys.secret, secretEncoding === 'text' ? 'utf8' : secretEncoding);
  const signature = hmac(algorithm, key, encoding, ...content);
  if (scheme.timestampHeader !== undefined) headers[scheme.timestampHeader] = timestamp;
  return { headers: { ...headers, [scheme.signatureHeader]: signatureText(scheme, signature, timestamp) } };
}

function eventHeaders({ idHeader, typeHeader }: HmacOptions, { id, type }: Signing): Record<string, string> {
  const headers: Record<string, string> = {};
  const [idName] = [idHeader ?? []].flat();
  const [typeName] = [typeHeader ?? []].flat();
  if (idName !== undefined) headers[idName] = id;
  if (typeName !== undefined) headers[typeName] = type;
  return headers;
}

function signatureText({ pairs, prefix = '' }: HmacOptions, signature: string, timestamp: string): string {
  if (pairs === undefined) return prefix + signature;
  const time = pairs.timestamp === undefined ? [] : [`${pairs.timestamp}=${timestamp}`];
  return [...time, `${pairs.signature}=${signature}`].join(pairs.separator ?? ',');
}

function rendered(
  template: string,
  { id, url, headers }: Signing,
  body: Buffer,
  timestamp: string,
): (string | Buffer)[] {
  // Odd positions are names: 'a${b}c' splits into a, b, c.
  return template.split(/\$\{([^}]*)\}/).map((text, at) => {
    if (at % 2 === 0) return text;
    if (text === 'body') return body;
    if (text === 'timestamp') return timestamp;
    if (text === 'id') return id;
    if (text === 'method') return 'POST';
    if (text === 'url') return url.replace(/^[a-z]+:\/\/[^/?]*/i, '');
    return headerOf(headers, text.slice('header:'.length));
  });
}

function headerOf(headers: Readonly<Record<string, string>>, name: string): string {
  const wanted = name.toLowerCase();
  return Object.entries(headers).find(([one]) => one.toLowerCase() === wanted)?.[1] ?? '';
}

function sampleBody({ idPath, typePath, eventsPath }: HmacOptions, id: string, type: string): unknown {
  const item: Record<string, unknown> = {};
  if (typeof idPath === 'string') put(item, idPath, id);
  if (typeof typePath === 'string') put(item, typePath, type);
  if (eventsPath === undefined) return item;
  const body: Record<string, unknown> = {};
  return eventsPath === '' ? [item] : put(body, eventsPath, [item]);
}

function put(target: Record<string, unknown>, path: string, value: unknown): Record<string, unknown> {
  const [name = '', ...rest] = path.split('.');
  target[name] = rest.length === 0 ? value : put(objectAt(target, name), rest.join('.'), value);
  return target;
}

function objectAt(target: Record<string, unknown>, name: string): Record<string, unknown> {
  const found = target[name];
  return typeof found === 'object' && found !== null ? { ...found } : {};
}

export const schemeSigners: readonly VendorSigner[] = [
  schemeSigner('hmac', hmacOf),
  schemeSigner('convoy', convoyOf),
];
