import { ConfigurationError } from '../../core/errors.js';
import { isComposite, type DedupeKey } from './dedupe-key.js';

/**
 * Refuses values that are not keys (they may come from a JSON file), and those that would make different events one.
 * @throws ConfigurationError
 */
export function checkDedupe(provider: string, key: DedupeKey, batched: boolean): void {
  if (key === 'preset' || typeof key === 'function') return;
  const wrong = (expected: string) =>
    new ConfigurationError(`${provider}.dedupe: expected ${expected}, received ${JSON.stringify(key)}`);
  if (isComposite(key)) {
    if (key.length === 0) throw wrong('at least one part');
    if (batched && key.every((part) => isHeader(part)))
      throw wrong('a part that differs between the events of one body');
    for (const part of key) checkDedupe(provider, part, false);
    return;
  }
  if (!isPart(key)) throw wrong(`'preset', { header }, { path }, { hash }, a function or an array of these`);
  if (batched && isHeader(key)) throw wrong('a key that differs between the events of one body');
}

function isPart(key: unknown): boolean {
  if (typeof key !== 'object' || key === null || Object.keys(key).length !== 1) return false;
  const [name, value] = Object.entries(key)[0] as [string, unknown];
  if (name === 'hash') return value === 'body' || isTexts(value);
  return (name === 'header' || name === 'path') && typeof value === 'string' && value !== '';
}

function isTexts(value: unknown): boolean {
  return (
    Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string' && one !== '')
  );
}

function isHeader(key: DedupeKey): boolean {
  return typeof key === 'object' && 'header' in key;
}

/** Whether the signature covers all parts of the key. A function may read anything, so it counts as unsigned. */
export function isSignedKey(
  key: DedupeKey,
  covers: { readonly preset: boolean; readonly body: boolean; readonly headers: readonly string[] },
): boolean {
  if (key === 'preset') return covers.preset;
  if (typeof key === 'function') return false;
  if (isComposite(key)) return key.every((part) => isSignedKey(part, covers));
  return 'header' in key ? covers.headers.includes(key.header.toLowerCase()) : covers.body;
}
