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
 * Scheme and host (and what a proxy cuts off the path) under which the vendor calls us; the request's own path and query
 * follow it. Never taken from the Host header: whoever sends a request writes that.
 */
export function publicUrlOption(path: string, value: unknown): string {
  return urlOption(path, value).replace(/\/$/, '');
}
