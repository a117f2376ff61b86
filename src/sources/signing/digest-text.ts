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
