import { BodyReader } from '../core/body.js';
import type { Source } from '../core/options/resolve-source.js';
import type { SearchValue } from '../storage/new-claim.js';
import { storable } from '../core/event.js';

/** Bytes of a value: longer ones are found by their start. */
const MAX_VALUE = 255;
/** Of a list, so many. */
const MAX_ITEMS = 20;

/** By what an event can be found: texts, numbers and booleans at the source's `searchPaths`, and those in a list there. */
export function searchValues({ searchPaths }: Source, body: Buffer): SearchValue[] {
  if (searchPaths.length === 0) return [];
  const reader = new BodyReader(body);
  return searchPaths.flatMap((path) => {
    const at = reader.at(path);
    const texts = Array.isArray(at)
      ? at.slice(0, MAX_ITEMS).map(textOf)
      : [reader.textAt(path) ?? textOf(at)];
    const values = texts.flatMap((text) => (text ? [storable(text, MAX_VALUE)] : []));
    return [...new Set(values)].map((value) => ({ path, value }));
  });
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? String(value)
    : undefined;
