import { SignatureRejection } from '../../core/errors.js';
import type { Verification } from '../../core/provider.js';
import { placeOf } from './digest.js';

/**
 * The secret that a request presents as it is. Every secret is compared, found or not, in constant time.
 * @throws SignatureRejection
 */
export function verifyToken(presented: string | undefined, secrets: readonly string[]): Verification {
  const secret = placeOf(presentedToken(presented), secrets);
  if (secret < 0) throw new SignatureRejection('wrong-signature', 'the token is not a configured one');
  return { secret };
}

/** @throws SignatureRejection when there is none */
export function presentedToken(presented: string | undefined): string {
  if (presented === undefined || presented === '')
    throw new SignatureRejection('missing-signature', 'the request presents no token');
  return presented;
}
