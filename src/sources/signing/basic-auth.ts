import type { Verification } from '../../core/provider.js';
import { SignatureRejection } from '../../core/errors.js';
import { decodeStrict } from './digest.js';
import { verifyToken } from './token.js';

/**
 * HTTP basic authentication (RFC 7617) against secrets of the form `user:password`; the password may hold colons.
 * @throws SignatureRejection
 */
export function verifyBasicAuth(authorization: string | undefined, secrets: readonly string[]): Verification {
  return verifyToken(basicCredentials(authorization), secrets);
}

/** @throws SignatureRejection when there are none */
export function basicCredentials(authorization: string | undefined): string {
  if (authorization === undefined || !/^basic /i.test(authorization) || authorization.length > 4096)
    throw new SignatureRejection('missing-signature', 'no basic authentication');
  const credentials = decodeStrict(authorization.slice('basic '.length), 'base64');
  if (credentials === undefined)
    throw new SignatureRejection('malformed-signature', 'the credentials are no base64');
  return credentials.toString('utf8');
}
