import { isIPv6 } from 'node:net';
import type { IncomingMessage } from 'node:http';

/** The part of an Express application that this file uses. Its request's `ip` follows the application's `trust proxy` setting. */
interface ExpressLike {
  readonly request: object;
}

/** The address that Express would give the request, for one that Express has not seen yet. */
export function expressAddress(express: ExpressLike, request: IncomingMessage): string {
  const seen = Object.create(express.request, {
    headers: { value: request.headers },
    socket: { value: request.socket },
  }) as { readonly ip?: string };
  return addressOf(seen);
}

/** Of a request as an adapter has it. The application's own function may decide whom to trust, and throw: that is no reason to refuse. */
export function addressOf(request: { readonly ip?: string }): string {
  try {
    return networkOf(request.ip);
  } catch {
    return '';
  }
}

/** An owner of an IPv6 address has the 2^64 addresses of its network. They count as one. */
export function networkOf(address: string | undefined): string {
  if (address === undefined || !isIPv6(address) || address.includes('.')) return address ?? '';
  const [head = '', tail] = address.split('%', 1)[0]!.split('::');
  const first = head === '' ? [] : head.split(':');
  const last = tail === undefined || tail === '' ? [] : tail.split(':');
  const zeros = Array.from({ length: tail === undefined ? 0 : 8 - first.length - last.length }, () => '0');
  return [...first, ...zeros, ...last].slice(0, 4).join(':');
}
