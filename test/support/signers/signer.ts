import { createHmac, type BinaryLike } from 'node:crypto';

/** A request as a vendor would send it. */
export interface SignedRequest {
  readonly method?: string;
  /** Path and query. @default '/hooks' */
  readonly url?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** @default the body that was to be signed */
  readonly body?: Buffer;
}

/** A vendor's side of a scheme, written from its documentation and not from our code, which it tests. */
export interface Signer {
  /** Name in `providersByName`. */
  readonly provider: string;
  /** What the source is configured with. */
  readonly secret: string;
  /** Another secret of the same form. */
  readonly otherSecret: string;
  /** Options under which the vendor publishes another key, where it is no secret that tells a forger from the vendor. */
  readonly otherKey?: Readonly<Record<string, unknown>>;
  /** Further options of the source. */
  readonly options?: Readonly<Record<string, unknown>>;
  /** A body of the vendor with one event of that id. */
  body(id: string): string;
  /** Signs with `secret`, at a time in Unix seconds. */
  sign(body: Buffer, at: number, id: string): SignedRequest;
  /** Whether the signature covers the body. @default true */
  readonly signsBody?: boolean;
  /** Whether a time is signed. */
  readonly signsTime: boolean;
}

export const ORIGIN = 'https://hooks.example.com';
export const URL_PATH = '/hooks';

export function hmac(
  algorithm: string,
  key: BinaryLike,
  encoding: 'hex' | 'base64' | 'base64url',
  ...parts: (string | Buffer)[]
): string {
  const mac = createHmac(algorithm, key);
  for (const part of parts) mac.update(part);
  return mac.digest(encoding);
}
