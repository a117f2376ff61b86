import { parseJson } from './body.js';
import { PermanentError } from './errors.js';

/** The stored bytes are not what their content type says. Permanent: they will not change. */
export class UnreadableBody extends PermanentError {}

/**
 * The payload of stored bytes: JSON for JSON types, an object for forms; anything else is JSON where it can be read as such
 * (SNS sends JSON as text/plain), else text.
 * @throws UnreadableBody when a JSON type does not hold JSON
 */
export function parsePayload(bytes: Buffer, contentType: string | undefined): unknown {
  const type = contentType?.split(';', 1)[0]!.trim().toLowerCase() ?? '';
  if (type === 'application/x-www-form-urlencoded') {
    return Object.fromEntries(new URLSearchParams(bytes.toString('utf8')));
  }
  const value = parseJson(bytes);
  if (value !== undefined) return value;
  if (type === '' || type === 'application/json' || type.endsWith('+json')) {
    throw new UnreadableBody(`the body (${bytes.length} bytes, ${type || 'no content type'}) is not JSON`);
  }
  return bytes.toString('utf8');
}
