import { createHash } from 'node:crypto';
import { refuseLazy } from '../core/lazy.js';

const MAX_BYTES = 255;

/**
 * An order key as stored. A blank key means none, and a long one is replaced by its hash.
 * @throws the error of `compute`
 */
export function orderKey(compute: () => string | undefined): string | undefined {
  const key: unknown = compute();
  refuseLazy(key, 'the function for a key');
  if (typeof key !== 'string' || key === '') return undefined;
  const clean = key.toWellFormed().replaceAll('\u0000', '\u2400');
  return Buffer.byteLength(clean) <= MAX_BYTES
    ? clean
    : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}
