import { InputRefused } from './errors.js';

/** Where a walk through the claims goes on: after this one. */
export interface Cursor {
  /** `received_at` as text, since a Date drops the microseconds. */
  readonly at: string;
  readonly id: string;
}

export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** As the statements write it. PostgreSQL reads other texts in ways of its own. */
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d(?::?\d\d)?)$/;

/** The place as text for an address. */
export function cursorText({ at, id }: Cursor): string {
  return Buffer.from(JSON.stringify([at, id])).toString('base64url');
}

/**
 * The place that such a text means; undefined for none.
 * @throws InputRefused for a text that no list has given out
 */
export function cursorOf(text: string | undefined): Cursor | undefined {
  if (text === undefined) return undefined;
  const cursor = text.length > 300 ? undefined : placeIn(text);
  if (cursor === undefined) throw new InputRefused('after: expected the `next` of the page before it');
  return cursor;
}

function placeIn(text: string): Cursor | undefined {
  try {
    const [at, id]: unknown[] = JSON.parse(Buffer.from(text, 'base64url').toString());
    const isPlace = typeof at === 'string' && TIME.test(at) && !Number.isNaN(Date.parse(at));
    return isPlace && typeof id === 'string' && UUID.test(id) ? { at, id } : undefined;
  } catch {
    return undefined;
  }
}
