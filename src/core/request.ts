import { SignatureRejection } from './errors.js';

/** One HTTP request (or one `inbox.receive(…)` call) as a provider sees it: nothing parsed, nothing re-encoded. */
export interface WebhookRequest {
  readonly method: string;
  /** Path and query as received. A provider that signs the public URL takes its origin from an option, never from a header. */
  readonly url: string;
  readonly headers: RequestHeaders;
  /** The exact bytes that arrived, after an accepted Content-Encoding was undone. */
  readonly rawBody: Buffer;
}

/** Case-insensitive headers that remember how often each one arrived: frameworks join repeats, which hides forgeries. */
export class RequestHeaders {
  private readonly values = new Map<string, string[]>();

  /** From Node's `rawHeaders`: name, value, name, value, … */
  static fromRaw(rawHeaders: readonly string[]): RequestHeaders {
    const headers = new RequestHeaders();
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) headers.add(rawHeaders[i]!, rawHeaders[i + 1]!);
    return headers;
  }

  /** From a plain record; an array means that the header arrived more than once. */
  static from(record: Readonly<Record<string, string | readonly string[] | undefined>>): RequestHeaders {
    const headers = new RequestHeaders();
    for (const [name, value] of Object.entries(record)) {
      if (value === undefined) continue;
      for (const one of typeof value === 'string' ? [value] : value) headers.add(name, one);
    }
    return headers;
  }

  /**
   * The header's only value, or undefined when it is absent.
   * @throws SignatureRejection `repeated-header` when it arrived more than once: picking one of two is guessing.
   */
  one(name: string): string | undefined {
    const values = this.values.get(name.toLowerCase());
    if (values === undefined) return undefined;
    if (values.length > 1)
      throw new SignatureRejection('repeated-header', `${name} arrived ${values.length} times`);
    return values[0];
  }

  /** The header's first value, for what no signature depends on (content type, user agent). */
  first(name: string): string | undefined {
    return this.values.get(name.toLowerCase())?.[0];
  }

  /** Only the named headers, as stored with a claim: an allow-list, since Authorization and cookies are secrets. */
  pick(names: Iterable<string>): Record<string, string> {
    const picked: Record<string, string> = {};
    for (const name of names) {
      const values = this.values.get(name.toLowerCase());
      if (values !== undefined) picked[name.toLowerCase()] = values.join(', ');
    }
    return picked;
  }

  /** All names and values, in lower case, repeats one after the other. */
  entries(): [string, string][] {
    return [...this.values].flatMap(([name, values]) =>
      values.map((value): [string, string] => [name, value]),
    );
  }

  private add(name: string, value: string): void {
    const key = name.toLowerCase();
    const known = this.values.get(key);
    if (known === undefined) this.values.set(key, [value]);
    else known.push(value);
  }
}
