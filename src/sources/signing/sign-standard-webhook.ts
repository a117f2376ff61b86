import { createHmac, createPrivateKey, sign, type KeyObject } from 'node:crypto';
import { decodeSecret } from './digest.js';
import { whsecKey } from './mac.js';

const PRIVATE_PREFIX = 'whsk_';
const SEED_BYTES = 32;
/** The bytes before the seed of an Ed25519 key in PKCS #8. */
const PKCS8_HEAD = Buffer.from('302e020100300506032b657004220420', 'hex');

/** Gives one signature of a message, with its version in front. */
type Sign = (message: Buffer) => string;

/**
 * The value of `webhook-signature`: one signature for each secret, so that the receiver may still have any of them.
 * @param secrets `whsec_` + base64 (v1, HMAC-SHA256), or `whsk_` + base64 of an Ed25519 private key (v1a)
 * @returns undefined without secrets, and where one is in neither encoding
 */
export function standardWebhookSignature(
  secrets: readonly string[],
  id: string,
  timestamp: number,
  body: Buffer,
): string | undefined {
  const message = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const signers = secrets.map(signerOf);
  if (signers.length === 0 || signers.includes(undefined)) return undefined;
  return signers.map((one) => one!(message)).join(' ');
}

function signerOf(secret: string): Sign | undefined {
  return secret.startsWith(PRIVATE_PREFIX) ? byPrivateKey(secret) : bySharedKey(secret);
}

function bySharedKey(secret: string): Sign | undefined {
  const key = whsecKey(secret);
  return key && ((message) => `v1,${createHmac('sha256', key).update(message).digest('base64')}`);
}

/** The seed alone, or followed by the public key. */
function byPrivateKey(secret: string): Sign | undefined {
  const bytes = decodeSecret(secret.slice(PRIVATE_PREFIX.length));
  if (bytes?.length !== SEED_BYTES && bytes?.length !== 2 * SEED_BYTES) return undefined;
  const key = ed25519(bytes.subarray(0, SEED_BYTES));
  return (message) => `v1a,${sign(null, message, key).toString('base64')}`;
}

function ed25519(seed: Buffer): KeyObject {
  return createPrivateKey({ key: Buffer.concat([PKCS8_HEAD, seed]), format: 'der', type: 'pkcs8' });
}
