import { Injectable } from '@nestjs/common';
import type { EventKey } from './event.js';

/** Upper bounds of the histogram of answer times, in milliseconds; the last bucket is open. */
export const ACK_BUCKETS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000] as const;

/** What is counted for each source: requests answered, work settled, leases lost. Rejections count under `rejected:<reason>`. */
export type Metric =
  | 'deliveries'
  | 'duplicates'
  | 'unavailable'
  | 'failed'
  | 'handled'
  | 'retried'
  | 'dead'
  | 'lost'
  | 'conflicts'
  | `rejected:${string}`
  | `ack:${number}`;

export interface DuplicateCount extends EventKey {
  readonly count: number;
  readonly lastAt: Date;
}
export interface SecretUse {
  readonly source: string;
  readonly fingerprint: string;
  readonly deliveries: number;
  readonly lastAt: Date;
}
/** What was counted since the last drain. */
export interface Counted {
  readonly metrics: readonly { readonly source: string; readonly metric: string; readonly value: number }[];
  readonly duplicates: readonly DuplicateCount[];
  readonly secrets: readonly SecretUse[];
}

/** Events whose duplicates are remembered between two flushes; further ones are counted for their source only. */
const MAX_DUPLICATES = 10_000;

/** Counts in memory what happens on the way of a delivery; someone else writes it down, off that way. */
@Injectable()
export class Tally {
  private metrics = new Map<string, { source: string; metric: string; value: number }>();
  private duplicates = new Map<string, DuplicateCount>();
  private secrets = new Map<string, SecretUse>();

  add(source: string, metric: Metric, by = 1): void {
    this.count(source, metric, by);
  }

  /** Takes counts back that could not be written down. */
  giveBack({ metrics }: Counted): void {
    for (const { source, metric, value } of metrics) this.count(source, metric, value);
  }

  private count(source: string, metric: string, by: number): void {
    const key = `${source} ${metric}`;
    const entry = this.metrics.get(key);
    if (entry === undefined) this.metrics.set(key, { source, metric, value: by });
    else entry.value += by;
  }

  /** Counts a verified delivery, its verdict, and how long the verdict took. */
  async delivery<T extends { readonly kind: string }>(
    source: string,
    verifiedBy: string,
    decide: () => Promise<T>,
  ): Promise<T> {
    const startedAt = performance.now();
    this.add(source, 'deliveries');
    this.used(source, verifiedBy);
    const verdict = await decide();
    this.add(source, `ack:${bucketOf(performance.now() - startedAt)}`);
    if (verdict.kind === 'unavailable' || verdict.kind === 'failed') this.add(source, verdict.kind);
    return verdict;
  }

  /** Counts one more delivery of a claimed event. */
  duplicate({ source, tenant, eventId }: EventKey): void {
    this.add(source, 'duplicates');
    const key = JSON.stringify([source, tenant, eventId]);
    const known = this.duplicates.get(key);
    if (known === undefined && this.duplicates.size >= MAX_DUPLICATES) return;
    this.duplicates.set(key, {
      source,
      tenant,
      eventId,
      count: (known?.count ?? 0) + 1,
      lastAt: new Date(),
    });
  }

  /** Everything since the last drain, which is then forgotten here. */
  drain(): Counted {
    const counted = {
      metrics: [...this.metrics.values()],
      duplicates: [...this.duplicates.values()],
      secrets: [...this.secrets.values()],
    };
    this.metrics = new Map();
    this.duplicates = new Map();
    this.secrets = new Map();
    return counted;
  }

  private used(source: string, fingerprint: string): void {
    const key = `${source} ${fingerprint}`;
    const deliveries = (this.secrets.get(key)?.deliveries ?? 0) + 1;
    this.secrets.set(key, { source, fingerprint, deliveries, lastAt: new Date() });
  }
}

function bucketOf(ms: number): number {
  return ACK_BUCKETS_MS.find((bound) => ms <= bound) ?? Infinity;
}
