import { createHmac } from 'node:crypto';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { URL_PATH, signedRequest, signerOf } from '../signers/index.js';

/** A request about which a vendor's SDK and this package disagree on purpose; docs/sources.md lists it by its title. */
export interface Difference {
  readonly provider: string;
  readonly title: string;
  readonly sdkAccepts: boolean;
  readonly request: () => WebhookRequest;
  readonly headers: readonly string[];
}

export function request(headers: Readonly<Record<string, string>>, body: string | Buffer): WebhookRequest {
  return {
    method: 'POST',
    url: URL_PATH,
    headers: RequestHeaders.from(headers),
    rawBody: Buffer.from(body),
  };
}

export function hex(secret: string, text: string): string {
  return createHmac('sha256', secret).update(text).digest('hex');
}

export function secretOf(provider: string): string {
  return signerOf(provider).secret;
}

/** Names of the headers that a vendor sends. */
export function headersOf(provider: string): string[] {
  return signedRequest(signerOf(provider))
    .headers.entries()
    .map(([name]) => name);
}

/** A genuine request with one header changed. */
export function changed(provider: string, name: string, change: (value: string) => string): WebhookRequest {
  const genuine = signedRequest(signerOf(provider));
  const headers = genuine.headers.pick(headersOf(provider));
  return { ...genuine, headers: RequestHeaders.from({ ...headers, [name]: change(headers[name] ?? '') }) };
}
