/** The dedupe key of an event. */
export interface EventKey {
  readonly source: string;
  /** '' unless the source's `secrets` function names a tenant. */
  readonly tenant: string;
  readonly eventId: string;
}

/** The order of keys in which every batch is claimed, in every process: batches in different orders would deadlock. */
export function byKey(a: EventKey, b: EventKey): number {
  return compare(a.source, b.source) || compare(a.tenant, b.tenant) || compare(a.eventId, b.eventId);
}

/** The key as one text. */
export function keyText({ source, tenant, eventId }: EventKey): string {
  return JSON.stringify([source, tenant, eventId]);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** An event as a handler gets it. */
export interface WebhookEvent<TPayload = unknown> extends EventKey {
  /** Our own id (UUIDv7), for logs and links; dedupe never uses it. */
  readonly id: string;
  readonly type: string;
  /** When it happened, as the provider says; undefined where it does not. */
  readonly occurredAt?: Date;
  /** When the first delivery arrived, by the database's clock. */
  readonly receivedAt: Date;
  /** The body, parsed. The signed bytes are in `rawBody`. */
  readonly payload: TPayload;
  /** The exact bytes that arrived. */
  readonly rawBody: Buffer;
  /** The stored headers: content type, user agent and what the provider or the source keeps. */
  readonly headers: Readonly<Record<string, string>>;
}

const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** A type as stored: a type only routes and labels, so that an odd one is cleaned rather than refused. */
export function eventType(type: string): string {
  return storable(type, 255).replace(FORBIDDEN, '');
}

/** The first `units` of a text, and never half a character: a lone surrogate is refused by jsonb, and by strict readers of JSON. */
export function headOf(text: string, units: number): string {
  const head = text.slice(0, units);
  return head.length < text.length && /[\ud800-\udbff]$/.test(head) ? head.slice(0, -1) : head;
}

/** JSON as `jsonb` can hold it: it refuses NUL and half characters. Long texts in it are cut to `maxBytes`. */
export function storableJson(value: Readonly<Record<string, unknown>>, maxBytes: number): string {
  return JSON.stringify(value, (_, one: unknown) => {
    if (typeof one === 'bigint') return String(one);
    return typeof one === 'string' ? storable(one, maxBytes) : one;
  });
}

/** Nearly all texts: each character a byte, and nothing to be cleaned. */
const PLAIN = /^[\t\n\r -~]*$/;

/** Text that PostgreSQL can hold: well-formed, without NUL, cut to `maxBytes`. */
export function storable(text: string, maxBytes: number): string {
  if (text.length <= maxBytes && PLAIN.test(text)) return text;
  const clean = text.toWellFormed().replaceAll('\u0000', '\u2400');
  if (Buffer.byteLength(clean) <= maxBytes) return clean;
  const head = Buffer.from(clean).subarray(0, maxBytes - 3);
  return `${withoutPart(head.toString('utf8'))}…`;
}

/**
 * Without the replacement characters at its end, which a cut through a character leaves. Counted from the end: a regular expression
 * takes the square of a run's length, and half a megabyte of them held the process for minutes.
 */
export function withoutPart(text: string): string {
  let end = text.length;
  while (end > 0 && text.charCodeAt(end - 1) === 0xfffd) end -= 1;
  return text.slice(0, end);
}
