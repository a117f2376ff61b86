/**
 * A URL as it was received, and the same with the scheme's port added or any port taken away: Twilio signs one of the two.
 * Only the text is cut, since `new URL` would change its case and escapes.
 */
export function withAndWithoutPort(url: string): [received: string, other: string] {
  const [, scheme = '', authority = '', rest = ''] = /^(https?:\/\/)([^/?#]*)(.*)$/is.exec(url) ?? [];
  const host = authority.slice(authority.lastIndexOf('@') + 1);
  // A colon before the closing bracket of an IPv6 address is no port.
  const port = host.indexOf(':', host.lastIndexOf(']') + 1);
  if (port >= 0) return [url, scheme + authority.slice(0, authority.length - host.length + port) + rest];
  return [url, `${scheme}${authority}:${scheme.toLowerCase() === 'https://' ? 443 : 80}${rest}`];
}
