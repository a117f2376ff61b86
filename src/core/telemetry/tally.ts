import { Injectable } from '@nestjs/common';
import type { EventKey } from '../event.js';
import { isMeasured, measure, type MetricName } from './meters.js';

/** Upper bounds of the histogram of answer times, in milliseconds; the last bucket is open. */
export const ACK_BUCKETS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000] as const;

/** The counts of each source: requests answered, work settled, leases lost. Rejections count under `rejected:<reason>`. */
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
  /** Deliveries of a known event with other bytes than its first, conflicts or not. */
  | 'other-bytes'
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
/** The counts since the last drain. */
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
  /** By source, then by metric. */
  private metrics = new Map<string, Map<string, number>>();
  private duplicates = new Map<string, DuplicateCount>();
  /** By source, then by fingerprint. */
  private secrets = new Map<string, Map<string, { deliveries: number; lastAt: number }>>();

  add(source: string, metric: Metric, by = 1): void {
    if (isMeasured()) report(source, metric, by);
    this.count(source, metric, by);
  }

  /** Takes counts back that could not be written down. */
  giveBack({ metrics }: Pick<Counted, 'metrics'>): void {
    for (const { source, metric, value } of metrics) this.count(source, metric, value);
  }

  private count(source: string, metric: string, by: number): void {
    const counts = of(this.metrics, source, () => new Map<string, number>());
    counts.set(metric, (counts.get(metric) ?? 0) + by);
  }

  /** Counts a verified delivery. */
  countReceived(source: string, verifiedBy: string): void {
    this.add(source, 'deliveries');
    this.countUse(source, verifiedBy);
  }

  /** Counts its verdict, and how long that took in milliseconds. */
  countAnswered(source: string, verdict: string, ms: number): void {
    this.add(source, bucketOf(ms));
    if (isMeasured()) {
      measure('webhook_inbox.deliveries', 1, { source, result: verdict });
      measure('webhook_inbox.ack.duration', ms / 1_000, { source, result: verdict });
    }
    if (verdict === 'unavailable' || verdict === 'failed') this.add(source, verdict);
  }

  /** Counts one more delivery of a claimed event. */
  countDuplicate({ source, tenant, eventId }: EventKey): void {
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
      metrics: [...this.metrics].flatMap(([source, counts]) =>
        [...counts].map(([metric, value]) => ({ source, metric, value })),
      ),
      duplicates: [...this.duplicates.values()],
      secrets: [...this.secrets].flatMap(([source, uses]) =>
        [...uses].map(([fingerprint, { deliveries, lastAt }]) => ({
          source,
          fingerprint,
          deliveries,
          lastAt: new Date(lastAt),
        })),
      ),
    };
    this.metrics = new Map();
    this.duplicates = new Map();
    this.secrets = new Map();
    return counted;
  }

  private countUse(source: string, fingerprint: string): void {
    const uses = of(this.secrets, source, () => new Map<string, { deliveries: number; lastAt: number }>());
    const use = of(uses, fingerprint, () => ({ deliveries: 0, lastAt: 0 }));
    use.deliveries += 1;
    use.lastAt = Date.now();
  }
}

const TOLD = {
  duplicates: 'webhook_inbox.duplicates',
  conflicts: 'webhook_inbox.conflicts',
  lost: 'webhook_inbox.lease.losses',
} as const;

/**
 * Reports the counts that are metrics of their own. Deliveries are reported with their result, and dead rows with their reason, elsewhere.
 */
function report(source: string, metric: Metric, by: number): void {
  if (metric.startsWith('rejected:'))
    measure('webhook_inbox.rejections', by, { source, reason: metric.slice('rejected:'.length) });
  const name = (TOLD as Readonly<Record<string, MetricName | undefined>>)[metric];
  if (name !== undefined) measure(name, by, { source });
}

/** The value of a key in a map. A missing one is made and added. */
function of<T>(map: Map<string, T>, key: string, make: () => T): T {
  let found = map.get(key);
  if (found === undefined) map.set(key, (found = make()));
  return found;
}

const BUCKETS = [...ACK_BUCKETS_MS, Infinity].map((bound) => ({ bound, metric: `ack:${bound}` as const }));

function bucketOf(ms: number): Metric {
  return BUCKETS.find(({ bound }) => ms <= bound)!.metric;
}
