import { SignatureRejection } from './errors.js';

/** One HTTP request (or one `inbox.receive(…)` call) as a provider sees it: nothing parsed, nothing re-encoded. */
export interface WebhookRequest {
  readonly method: string;
  /** Path and query as received. A provider that signs the public URL takes its origin from an option, never from a header. */
  readonly url: string;
  readonly headers: RequestHeaders;
  /** The exact bytes that arrived, after an accepted Content-Encoding was undone. */
  readonly rawBody: Buffer;
  /**
   * Keeps the bytes counted in the byte budget until `work` has ended, also where the answer comes before. Set for requests that came over
   * HTTP.
   */
  readonly during?: <T>(work: Promise<T>) => Promise<T>;
}

/** The parts of a request that are known before its body. */
export type RequestHead = Pick<WebhookRequest, 'method' | 'url' | 'headers'>;

/** `work`, during which the bytes of the request are counted. */
export function during<T>(request: WebhookRequest, work: Promise<T>): Promise<T> {
  return request.during === undefined ? work : request.during(work);
}

const KNOWN_ENCODINGS: ReadonlySet<string> = new Set(['gzip', 'x-gzip', 'deflate', 'br', 'zstd', 'compress']);

/** A content encoding for a person: its name where it is one, since a header may hold any text. */
export function printableEncoding(value: string): string {
  const name = value.trim().toLowerCase();
  return KNOWN_ENCODINGS.has(name) ? `'${name}'` : 'of another name';
}

/** A content type for a person: without parameters, and empty for a malformed one. */
export function printableType(value: string | undefined): string {
  return /^[a-z]{1,20}\/[\w.+-]{1,60}/i.exec(value?.trim() ?? '')?.[0] ?? '';
}

/**
 * Case-insensitive headers that remember how often each one arrived. Frameworks join repeated headers, which hides forgeries. Few headers
 * are ever read, so they are searched for in the list that arrived.
 */
export class RequestHeaders {
  /** @param raw name, value, name, value, … */
  private constructor(private readonly raw: readonly string[]) {}

  /** From Node's `rawHeaders`: name, value, name, value, … */
  static fromRaw(rawHeaders: readonly string[]): RequestHeaders {
    return new RequestHeaders(rawHeaders);
  }

  /** From a plain record; an array means that the header arrived more than once. */
  static from(record: Readonly<Record<string, string | readonly string[] | undefined>>): RequestHeaders {
    const raw: string[] = [];
    for (const [name, value] of Object.entries(record)) {
      if (value === undefined) continue;
      for (const one of typeof value === 'string' ? [value] : value) raw.push(name, one);
    }
    return new RequestHeaders(raw);
  }

  /**
   * The header's only value, or undefined when it is absent.
   * @throws SignatureRejection `repeated-header` when it arrived more than once: picking one of two is guessing.
   */
  one(name: string): string | undefined {
    const at = this.find(name, 0);
    if (at === undefined) return undefined;
    if (this.find(name, at + 2) !== undefined) {
      const times = this.entries().filter(([one]) => one === name.toLowerCase()).length;
      throw new SignatureRejection('repeated-header', `${name} arrived ${times} times`);
    }
    return this.raw[at + 1];
  }

  /** The header's first value, for what no signature depends on (content type, user agent). */
  first(name: string): string | undefined {
    const at = this.find(name, 0);
    return at === undefined ? undefined : this.raw[at + 1];
  }

  /** Only the named headers, as stored with a claim: an allow-list, since Authorization and cookies are secrets. */
  pick(names: Iterable<string>): Record<string, string> {
    const picked: Record<string, string> = {};
    for (const name of names) {
      let at = this.find(name, 0);
      if (at === undefined) continue;
      let value = this.raw[at + 1]!;
      while ((at = this.find(name, at + 2)) !== undefined) value += `, ${this.raw[at + 1]!}`;
      picked[name.toLowerCase()] = value;
    }
    return picked;
  }

  /** All names and values, in lower case, repeats one after the other. */
  entries(): [string, string][] {
    const values = new Map<string, string[]>();
    for (let at = 0; at + 1 < this.raw.length; at += 2) {
      const name = this.raw[at]!.toLowerCase();
      const value = this.raw[at + 1]!;
      const known = values.get(name);
      if (known === undefined) values.set(name, [value]);
      else known.push(value);
    }
    return [...values].flatMap(([name, all]) => all.map((value): [string, string] => [name, value]));
  }

  /** Where a header of this name stands, at or behind `from`. */
  private find(name: string, from: number): number | undefined {
    const wanted = name.toLowerCase();
    for (let at = from; at + 1 < this.raw.length; at += 2) {
      const one = this.raw[at]!;
      if (one.length === wanted.length && (one === wanted || one.toLowerCase() === wanted)) return at;
    }
    return undefined;
  }
}

/** Scheme and authority of a target in absolute form, which RFC 9112 (3.2.2) wants accepted. */
const AUTHORITY = /^https?:\/\/[^/?#]+/i;

/** The parsed target of a request. */
export interface RequestTarget {
  readonly path: string;
  /** Path and query. */
  readonly url: string;
}

/**
 * The one reading of a request's target, for the body reader, the guard and the direct route. A fragment does not belong to it.
 * @returns undefined for a target that has no path: `*`, or one of another scheme
 */
export function targetOf(text: string): RequestTarget | undefined {
  const rest = text.startsWith('/') ? text : text.replace(AUTHORITY, '');
  if (rest === text && !text.startsWith('/')) return undefined;
  const url = before(rest.startsWith('/') ? rest : `/${rest}`, '#');
  return { path: before(url, '?'), url };
}

function before(text: string, end: string): string {
  const at = text.indexOf(end);
  return at === -1 ? text : text.slice(0, at);
}
