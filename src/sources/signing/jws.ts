import { parseJson } from '../../core/body.js';
import { SignatureRejection } from '../../core/errors.js';
import { decodeStrict } from './digest.js';

const MAX_TOKEN = 8192;

/** A compact JWS (RFC 7515) taken apart; nothing of it is believed yet. */
export interface Jws {
  readonly header: Readonly<Record<string, unknown>>;
  readonly claims: Readonly<Record<string, unknown>>;
  readonly signed: string;
  readonly signature: Buffer;
}

/**
 * Reads a token of one algorithm. The token's own algorithm is only compared. Otherwise the sender could choose 'none', or HS256 with a
 * public key as secret.
 * @throws SignatureRejection
 */
export function readJws(token: string | undefined, algorithm: 'HS256' | 'ES256'): Jws {
  if (token === undefined || token === '') throw new SignatureRejection('missing-signature', 'no token');
  const parts = token.length > MAX_TOKEN ? [] : token.split('.');
  const [head, body, tail] = parts;
  const signature = tail === undefined ? undefined : decodeStrict(tail, 'base64url');
  const header = jsonObject(head);
  const claims = jsonObject(body);
  if (parts.length !== 3 || header === undefined || claims === undefined || signature === undefined)
    throw new SignatureRejection('malformed-signature', 'the token is no compact JWS');
  if (header['alg'] !== algorithm || header['crit'] !== undefined)
    throw new SignatureRejection('malformed-signature', `the token is not signed with ${algorithm}`);
  return { header, claims, signed: `${head}.${body}`, signature };
}

/** Milliseconds of a NumericDate claim, or undefined when it is absent. */
export function claimTime(claims: Jws['claims'], name: string): number | undefined {
  const value = claims[name];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && Number.isFinite(value) && value >= 0) return value * 1000;
  throw new SignatureRejection('malformed-timestamp', `the claim ${name} is no time`);
}

function jsonObject(text: string | undefined): Readonly<Record<string, unknown>> | undefined {
  const bytes = text === undefined ? undefined : decodeStrict(text, 'base64url');
  const value = bytes && parseJson(bytes);
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : undefined;
}
