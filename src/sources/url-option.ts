import { ConfigurationError } from '../core/errors.js';

/**
 * A URL as the vendor has it, character for character: it is signed as text, so nothing is normalised.
 * @throws ConfigurationError when it is no absolute http(s) URL
 */
export function urlOption(path: string, value: unknown): string {
  if (typeof value === 'string' && /^https?:\/\/[^/?#]/i.test(value)) return value;
  throw new ConfigurationError(
    `${path}: expected an absolute URL such as 'https://hooks.example.com', exactly as the vendor calls it, received ${JSON.stringify(value)}`,
  );
}

/**
 * Scheme and host (and any path that a proxy cuts off) under which the vendor calls us. The request's own path and query follow it. It is
 * never taken from the Host header, which the sender writes.
 */
export function publicUrlOption(path: string, value: unknown): string {
  return urlOption(path, value).replace(/\/$/, '');
}
