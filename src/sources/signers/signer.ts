import { createHmac, type BinaryLike, type KeyObject } from 'node:crypto';
import type { UntypedOptions } from '../registry.js';

/** The key material of a test: the source's part, and the vendor's part. */
export interface TestKeys {
  /** The text that the source is configured with: a secret, a public key, a topic's ARN or a webhook id. */
  readonly secret: string;
  /** The key that signs, of a vendor with a key pair. */
  readonly privateKey?: KeyObject;
  /** The certificate or the key that the vendor publishes. */
  readonly published?: string;
  /** Answers with `published`. Give it to `sns()`, `paypal()` or `plaid()` as their option `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface KeyPair {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}

/** The event of a request, and all that its signature depends on. */
export interface Signing {
  readonly id: string;
  readonly type: string;
  readonly keys: TestKeys;
  /** Unix seconds. */
  readonly at: number;
  /** The public URL that the request is sent to. */
  readonly url: string;
  /** Further headers of the request. */
  readonly headers: Readonly<Record<string, string>>;
  /** The options of the source, where the scheme depends on them. */
  readonly options: UntypedOptions;
}

/** A request as a vendor sends it. */
export interface VendorRequest {
  readonly headers: Readonly<Record<string, string>>;
  /** @default the body that was to be signed */
  readonly body?: Buffer;
}

/** A vendor's side of a scheme. It follows the vendor's documentation, and shares no code with the verification. */
export interface VendorSigner {
  /** Name in `providersByName`. */
  readonly provider: string;
  /** A secret in the vendor's form. A vendor with a key pair has `makeKeys` instead. */
  readonly secret?: string;
  /** @param pair a key pair to use, since a new one of RSA takes a second */
  readonly makeKeys?: (pair?: KeyPair) => TestKeys;
  /** The type of the sample event. */
  readonly type: string;
  /** Whether a request can carry another type. @default true */
  readonly takesType?: boolean;
  /** Whether a time is signed. */
  readonly signsTime: boolean;
  /** Whether the signature covers the body. @default true */
  readonly signsBody?: boolean;
  /** Whether the signature covers the URL, which the caller must know. @default false */
  readonly signsUrl?: boolean;
  /** A sample body with one event. */
  body(event: Pick<Signing, 'id' | 'type' | 'options'>): string;
  /** Writes a body that a test gives as an object. @default JSON.stringify */
  encode?(body: object): string;
  sign(body: Buffer, signing: Signing): VendorRequest;
}

export type Encoding = 'hex' | 'base64' | 'base64url';
export type TimeUnit = 'seconds' | 'milliseconds' | 'iso8601';

/** The time of sample events whose vendor writes one: it is no part of a signature. */
export const SAMPLE_TIME = '2026-01-01T00:00:00Z';
export const SAMPLE_SECONDS = 1_767_225_600;

export function hmac(
  algorithm: string,
  key: BinaryLike,
  encoding: Encoding,
  ...parts: (string | Buffer)[]
): string {
  const mac = createHmac(algorithm, key);
  for (const part of parts) mac.update(part);
  return mac.digest(encoding);
}

export function timestampOf(at: number, unit: TimeUnit): string {
  if (unit === 'seconds') return String(at);
  return unit === 'milliseconds' ? String(at * 1000) : new Date(at * 1000).toISOString();
}

/** A type that the vendor writes as two fields: the text before its first dot, and the rest. */
export function twoParts(type: string): [string, string] {
  const dot = type.indexOf('.');
  return dot < 0 ? [type, ''] : [type.slice(0, dot), type.slice(dot + 1)];
}

export function jsonOf(body: Buffer): Record<string, unknown> {
  return JSON.parse(body.toString()) as Record<string, unknown>;
}
