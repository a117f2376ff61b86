/** How a vendor writes a digest or a signature in a header. */
export type DigestEncoding = 'hex' | 'base64' | 'base64url';

/**
 * Bytes of canonical text, or undefined: lower-case hex, padded standard base64, unpadded base64url, nothing around it.
 * `Buffer.from` alone drops what it does not know, so that 'ab' and 'ab zz' would be one signature.
 */
export function decodeStrict(text: string, encoding: DigestEncoding): Buffer | undefined {
  const bytes = Buffer.from(text, encoding);
  return bytes.toString(encoding) === text ? bytes : undefined;
}

/**
 * Bytes of a secret or a public key in standard base64, padded or not, or undefined. Vendors and their libraries do not agree on the
 * padding. A secret is the owner's, so this gives an attacker no second way to write a signature.
 */
export function decodeSecret(text: string): Buffer | undefined {
  const bare = text.replace(/={1,2}$/, '');
  const padded = bare.padEnd(Math.ceil(bare.length / 4) * 4, '=');
  return decodeStrict(padded, 'base64');
}
