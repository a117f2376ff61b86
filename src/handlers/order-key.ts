import { createHash } from 'node:crypto';
import { answeredAtOnce } from '../core/lazy.js';

const MAX_BYTES = 255;

/** An order key as stored: blank means none, a long one is its hash. @throws whatever `compute` throws */
export function orderKey(compute: () => string | undefined): string | undefined {
  const key: unknown = compute();
  answeredAtOnce(key, 'the function for a key');
  if (typeof key !== 'string' || key === '') return undefined;
  const clean = key.toWellFormed().replaceAll('\u0000', '\u2400');
  return Buffer.byteLength(clean) <= MAX_BYTES
    ? clean
    : `sha256:${createHash('sha256').update(key).digest('hex')}`;
}
