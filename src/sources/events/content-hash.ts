import { createHash } from 'node:crypto';
import { BodyReader } from '../../core/body.js';
import { EventIdUnusable } from '../../core/errors.js';
import { canonicalJson } from './canonical-json.js';
import { rangeAt, rootOf } from '../../core/json/json-ranges.js';

/**
 * SHA-256 of the body's bytes, or of chosen fields: one line `"path"=value` for each, sorted by path, the value in canonical
 * JSON; an absent field is the path alone. So neither white space nor the order of keys counts, and absent differs from null.
 * @throws EventIdUnusable when the body is not JSON or holds none of the fields: all such bodies would be one event
 */
export function contentHash(body: BodyReader, fields: 'body' | readonly string[]): string {
  const content = fields === 'body' ? body.bytes : canonicalFields(body, fields);
  return `content:${createHash('sha256').update(content).digest('hex')}`;
}

/**
 * SHA-256 of a JSON body in canonical form, without the members at these paths, which a retry changes.
 * @throws EventIdUnusable when the body is not JSON
 */
export function contentHashWithout(body: BodyReader, paths: readonly string[]): string {
  if (body.json() === undefined) throw new EventIdUnusable('the body is not JSON');
  return contentHash(
    new BodyReader(Buffer.from(canonicalJson(body.bytes, rootOf(body.bytes), paths))),
    'body',
  );
}

function canonicalFields(body: BodyReader, fields: readonly string[]): string {
  if (body.json() === undefined) throw new EventIdUnusable('dedupe.hash: the body is not JSON');
  const found = [...new Set(fields)].sort().map((path) => ({ path, range: rangeAt(body.bytes, path) }));
  if (found.every(({ range }) => range === undefined))
    throw new EventIdUnusable(`dedupe.hash: the body has none of ${fields.join(', ')}`);
  return found
    .map(({ path, range }) => {
      const name = JSON.stringify(path);
      return range === undefined ? name : `${name}=${canonicalJson(body.bytes, range)}`;
    })
    .join('\n');
}
