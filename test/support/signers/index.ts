import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import { providersByName } from '../../../src/sources/index.js';
import { keySigners } from './key-signers.js';
import { bodySigners, timedSigners } from './plain-signers.js';
import { URL_PATH, type SignedRequest, type Signer } from './signer.js';
import { standardSigners } from './standard-signers.js';
import { tokenSigners } from './token-signers.js';
import { urlSigners } from './url-signers.js';

export { ORIGIN, URL_PATH, type SignedRequest, type Signer } from './signer.js';

/** The vendor's side of every provider of the catalogue. */
export const signers: readonly Signer[] = [
  ...bodySigners,
  ...timedSigners,
  ...standardSigners,
  ...urlSigners,
  ...tokenSigners,
  ...keySigners,
];

/** A time for signatures: 2026-01-01T00:00:00Z, in Unix seconds. */
export const NOW = 1_767_225_600;

/** Options that name what others call a secret. */
const SECRETS_OPTION: Readonly<Record<string, string>> = { sns: 'topicArns', paypal: 'webhookIds' };

export function signerOf(provider: string): Signer {
  const found = signers.find((signer) => signer.provider === provider);
  if (found === undefined) throw new Error(`no signer for '${provider}'`);
  return found;
}

/** The source of a signer, configured with these secrets. */
export function sourceOf(
  signer: Signer,
  secrets: readonly string[] = [signer.secret],
  options: Readonly<Record<string, unknown>> = {},
): SourceDefinition {
  const factory = providersByName.get(signer.provider);
  if (factory === undefined) throw new Error(`no provider '${signer.provider}'`);
  return factory({ ...signer.options, ...options, [SECRETS_OPTION[signer.provider] ?? 'secrets']: secrets });
}

/** A request of the vendor with one event of that id, signed at a time in Unix seconds. */
export function signedRequest(
  signer: Signer,
  id = 'evt_1',
  at = NOW,
  body = signer.body(id),
): WebhookRequest {
  return toRequest(signer.sign(Buffer.from(body), at, id), Buffer.from(body));
}

export function toRequest(signed: SignedRequest, body: Buffer): WebhookRequest {
  return {
    method: signed.method ?? 'POST',
    url: signed.url ?? URL_PATH,
    headers: RequestHeaders.from(signed.headers),
    rawBody: signed.body ?? body,
  };
}
