import { SignatureRejection } from '../../core/errors.js';
import { neutral } from '../../core/neutral.js';
import { AnsweredOtherwise } from './fetch-text.js';

export interface RemoteKeysLimits {
  /** How long a key is used before it is fetched again, in milliseconds. */
  readonly ttlMs: number;
  /** How long a failed fetch is remembered, in milliseconds. */
  readonly failureTtlMs: number;
  /** Most names that are remembered, trusted ones and others each; the one used longest ago goes first. */
  readonly maxEntries: number;
  /** Most fetches in a minute of names that are not trusted: they come from requests that are not verified yet. */
  readonly maxPerMinute: number;
}

const DEFAULTS: RemoteKeysLimits = {
  ttlMs: 6 * 60 * 60_000,
  failureTtlMs: 30_000,
  maxEntries: 20,
  maxPerMinute: 30,
};

interface Entry<T> {
  readonly key: Promise<T>;
  expiresAt: number;
}

/**
 * Keys that a vendor publishes, by name (a URL, a key id). One fetch serves all callers that wait for it, and its key is used until it
 * expires. Forged requests with ever new names can neither fill the memory nor flood the vendor. They also cannot displace a key that has
 * verified a request.
 */
export class RemoteKeys<T> {
  private readonly trusted = new Map<string, Entry<T>>();
  private readonly others = new Map<string, Entry<T>>();
  private readonly limits: RemoteKeysLimits;
  private minute = { startedAt: 0, fetches: 0 };

  constructor(
    private readonly load: (name: string) => Promise<T>,
    limits: Partial<RemoteKeysLimits> = {},
  ) {
    this.limits = { ...DEFAULTS, ...limits };
  }

  /** @throws SignatureRejection `key-unavailable` when the key is not available at this moment; the rejection of `load` */
  async get(name: string): Promise<T> {
    const now = Date.now();
    const entries = this.trusted.has(name) ? this.trusted : this.others;
    let entry = entries.get(name);
    if (entry === undefined || entry.expiresAt <= now) {
      // Few names are trusted, and each is fetched once in its time.
      if (entries === this.others) this.countFetch(now);
      entry = this.fetched(name, now);
    }
    this.keep(entries, name, entry);
    return entry.key;
  }

  /** Its key has verified a request: from now on names that have not are no reason to forget it, or not to fetch it again. */
  trust(name: string, key: T): void {
    if (this.trusted.has(name)) return;
    // It may have been forgotten meanwhile.
    const entry = this.others.get(name) ?? {
      key: Promise.resolve(key),
      expiresAt: Date.now() + this.limits.ttlMs,
    };
    this.others.delete(name);
    this.keep(this.trusted, name, entry);
  }

  private countFetch(now: number): void {
    if (now - this.minute.startedAt >= 60_000) this.minute = { startedAt: now, fetches: 0 };
    if (this.minute.fetches >= this.limits.maxPerMinute)
      throw new SignatureRejection('key-unavailable', 'too many keys were asked for in this minute');
    this.minute.fetches++;
  }

  private fetched(name: string, now: number): Entry<T> {
    const key = neutral(() => this.load(name)).catch((error: unknown) => {
      entry.expiresAt = Date.now() + this.limits.failureTtlMs;
      if (error instanceof SignatureRejection) throw error;
      // A forged request may name keys that the vendor does not have. That is no reason to ask for a redelivery.
      if (error instanceof AnsweredOtherwise && error.isForGood)
        throw new SignatureRejection('unusable-key', 'the vendor has no such key', { cause: error });
      throw new SignatureRejection('key-unavailable', 'the vendor’s key could not be fetched', {
        cause: error,
      });
    });
    const entry: Entry<T> = { key, expiresAt: now + this.limits.ttlMs };
    return entry;
  }

  // Last in the map is used last.
  private keep(entries: Map<string, Entry<T>>, name: string, entry: Entry<T>): void {
    entries.delete(name);
    entries.set(name, entry);
    const [oldest] = entries.keys();
    if (entries.size > this.limits.maxEntries) entries.delete(oldest!);
  }
}
