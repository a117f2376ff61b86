import { SignatureRejection } from '../../core/errors.js';

export interface RemoteKeysLimits {
  /** How long a key is used before it is fetched again, in milliseconds. */
  readonly ttlMs: number;
  /** How long a failed fetch is remembered, in milliseconds. */
  readonly failureTtlMs: number;
  /** Most names that are remembered; the one used longest ago goes first. */
  readonly maxEntries: number;
  /** Most fetches in a minute: names come from requests that are not verified yet. */
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
 * Keys that a vendor publishes, by name (a URL, a key id). One fetch serves all who wait for it; what was fetched is used
 * until it expires; forged requests with ever new names can neither fill the memory nor flood the vendor.
 */
export class RemoteKeys<T> {
  private readonly entries = new Map<string, Entry<T>>();
  private readonly limits: RemoteKeysLimits;
  private minute = { startedAt: 0, fetches: 0 };

  constructor(
    private readonly load: (name: string) => Promise<T>,
    limits: Partial<RemoteKeysLimits> = {},
  ) {
    this.limits = { ...DEFAULTS, ...limits };
  }

  /** @throws SignatureRejection `key-unavailable` when the key cannot be had just now; whatever `load` rejects a key with */
  async get(name: string): Promise<T> {
    const now = Date.now();
    const known = this.entries.get(name);
    const entry = known !== undefined && known.expiresAt > now ? known : this.fetched(name, now);
    // Last in the map is used last.
    this.entries.delete(name);
    this.entries.set(name, entry);
    if (this.entries.size > this.limits.maxEntries) this.forgetOldest();
    return entry.key;
  }

  private fetched(name: string, now: number): Entry<T> {
    if (now - this.minute.startedAt >= 60_000) this.minute = { startedAt: now, fetches: 0 };
    if (this.minute.fetches >= this.limits.maxPerMinute)
      throw new SignatureRejection('key-unavailable', 'too many keys were asked for in this minute');
    this.minute.fetches++;
    const key = this.load(name).catch((error: unknown) => {
      entry.expiresAt = Date.now() + this.limits.failureTtlMs;
      if (error instanceof SignatureRejection) throw error;
      throw new SignatureRejection('key-unavailable', 'the vendor’s key could not be fetched', {
        cause: error,
      });
    });
    const entry: Entry<T> = { key, expiresAt: now + this.limits.ttlMs };
    return entry;
  }

  private forgetOldest(): void {
    for (const oldest of this.entries.keys()) {
      this.entries.delete(oldest);
      return;
    }
  }
}
