import { createPublicKey, type KeyObject } from 'node:crypto';
import { parseJson } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { AnsweredOtherwise, fetchText, type Fetch } from './fetch-text.js';
import { RemoteKeys } from './remote-keys.js';

/** Plaid's verification keys by key id, fetched with the first credentials that Plaid accepts. */
export class PlaidKeys {
  private readonly keys = new RemoteKeys<KeyObject>((name) => this.load(name), { ttlMs: 60 * 60_000 });

  constructor(
    private readonly origin: string,
    private readonly fetch: Fetch,
  ) {}

  /**
   * The place of the first credentials that Plaid accepts, when the key made the signature; undefined when it did not.
   * @param verifies the check, with Plaid's key
   * @throws SignatureRejection
   */
  async verify(
    kid: unknown,
    secrets: readonly string[],
    verifies: (key: KeyObject) => boolean,
  ): Promise<number | undefined> {
    if (typeof kid !== 'string' || !/^[A-Za-z0-9-]{1,64}$/.test(kid))
      throw new SignatureRejection('malformed-signature', 'kid is no key id');
    let failure: unknown = new SignatureRejection('unusable-key', 'the source has no credentials');
    for (const [secret, credentials] of secrets.entries()) {
      if (!isCredentials(credentials)) continue;
      try {
        const name = `${kid} ${credentials}`;
        const key = await this.keys.get(name);
        if (!verifies(key)) return undefined;
        this.keys.trust(name, key);
        return secret;
      } catch (error) {
        // Plaid has said what it knows of the key, which it says to no credentials that are wrong.
        if (error instanceof SignatureRejection && error.reason === 'unusable-key') throw error;
        failure = error;
      }
    }
    throw failure;
  }

  private async load(name: string): Promise<KeyObject> {
    const [kid, credentials] = split(name, ' ');
    const [clientId, secret] = split(credentials, ':');
    const text = await fetchText(this.fetch, `${this.origin}/webhook_verification_key/get`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ client_id: clientId, secret, key_id: kid }),
    }).catch(refuseUnknownKey);
    return keyOf(kid, property(parseJson(Buffer.from(text)), 'key'));
  }
}

/**
 * Plaid answers 400 for a key id that it has not made, and for credentials that are wrong: only the first is the sender's doing.
 * @throws SignatureRejection `unusable-key`, or what it is given
 */
function refuseUnknownKey(error: unknown): never {
  const answer = error instanceof AnsweredOtherwise ? parseJson(Buffer.from(error.text)) : undefined;
  if (property(answer, 'error_code') === 'INVALID_WEBHOOK_VERIFICATION_KEY_ID')
    throw new SignatureRejection('unusable-key', 'Plaid has no such key', { cause: error });
  throw error;
}

/** Whether a secret is `client_id:secret`. */
export function isCredentials(secret: string): boolean {
  return /^[^:]+:.+$/.test(secret);
}

/** @throws SignatureRejection when it is no P-256 key, another one, or one that has expired */
function keyOf(kid: string, jwk: unknown): KeyObject {
  if (property(jwk, 'expired_at') !== undefined && property(jwk, 'expired_at') !== null)
    throw new SignatureRejection('unusable-key', 'Plaid’s key has expired');
  if (property(jwk, 'kid') !== kid || property(jwk, 'kty') !== 'EC' || property(jwk, 'crv') !== 'P-256')
    throw new SignatureRejection('unusable-key', 'Plaid answered with another kind of key');
  const { x, y } = jwk as { x?: string; y?: string };
  try {
    return createPublicKey({ key: { kty: 'EC', crv: 'P-256', x, y }, format: 'jwk' });
  } catch (error) {
    throw new SignatureRejection('unusable-key', 'Plaid’s key cannot be read', { cause: error });
  }
}

function split(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)];
}

function property(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
