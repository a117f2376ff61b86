/** Where a walk through the claims goes on: after this one. */
export interface Cursor {
  /** `received_at` as text, since a Date drops the microseconds. */
  readonly at: string;
  readonly id: string;
}

export const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** As the statements write it. PostgreSQL reads other texts in ways of its own. */
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?(?:Z|[+-]\d\d(?::?\d\d)?)$/;

/** The place as text for an address, and back; undefined for anything else. */
export function cursorText({ at, id }: Cursor): string {
  return Buffer.from(JSON.stringify([at, id])).toString('base64url');
}
export function readCursor(text: string | undefined): Cursor | undefined {
  if (text === undefined || text.length > 300) return undefined;
  try {
    const [at, id]: unknown[] = JSON.parse(Buffer.from(text, 'base64url').toString());
    return typeof at === 'string' &&
      TIME.test(at) &&
      !Number.isNaN(Date.parse(at)) &&
      typeof id === 'string' &&
      UUID.test(id)
      ? { at, id }
      : undefined;
  } catch {
    return undefined;
  }
}
