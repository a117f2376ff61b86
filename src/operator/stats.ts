import { Injectable } from '@nestjs/common';
import { ACK_BUCKETS_MS } from '../core/telemetry/tally.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';
import { RelayStore, type Backlog } from '../storage/desk/relay.store.js';
import { StatStore, type StatPoint } from '../storage/desk/stat.store.js';

/** `hour`: minute by minute; `day`: in steps of ten minutes. */
export type Range = 'hour' | 'day';

const MINUTE_MS = 60_000;
export const RANGES: Readonly<Record<Range, { readonly sinceMs: number; readonly stepMs: number }>> = {
  hour: { sinceMs: 60 * MINUTE_MS, stepMs: MINUTE_MS },
  day: { sinceMs: 24 * 60 * MINUTE_MS, stepMs: 10 * MINUTE_MS },
};

/** Counts in one step of time. */
export interface Step {
  /** Its start, in milliseconds since 1970. */
  readonly at: number;
  readonly deliveries: number;
  readonly handled: number;
  readonly duplicates: number;
  readonly rejected: number;
  /** The same by reason; reasons without one are left out. */
  readonly rejectedBy: Readonly<Record<string, number>>;
  readonly retried: number;
  readonly dead: number;
  /** Leases that ended with nothing recorded: processes that were killed, or too slow to renew. */
  readonly lost: number;
  readonly unavailable: number;
  /** Milliseconds until a verdict, estimated from a histogram; null where nothing was answered. */
  readonly ackP50: number | null;
  readonly ackP99: number | null;
  /** The largest values measured in it. Null without a measurement. */
  readonly backlogMs: number | null;
  readonly pending: number | null;
  readonly running: number | null;
  readonly deadRows: number | null;
}
/** Figures of all instances, for the last hour or day. */
export interface Overview {
  readonly range: Range;
  readonly stepMs: number;
  readonly steps: readonly Step[];
  readonly rejectedBy: readonly { readonly reason: string; readonly count: number }[];
  readonly now: Backlog & { readonly running: number; readonly instances: number };
}
/** Rates of a source within the last hour and day. */
export interface SourceRates {
  readonly hour: number;
  readonly day: number;
  readonly duplicatesDay: number;
  readonly rejectedDay: number;
  readonly handledDay: number;
  readonly deadDay: number;
}

const REJECTED = 'rejected:';

/** An instance that was silent for longer is taken for gone. */
export const SILENT_MS = 45_000;

/** Figures from the small rollups: no question touches the claims. */
@Injectable()
export class Stats {
  constructor(
    private readonly reads: BoundedRead,
    private readonly store: StatStore,
    private readonly relays: RelayStore,
  ) {}

  /** Counts of all instances, for the last hour or day. */
  async overview(range: Range, nowMs = Date.now()): Promise<Overview> {
    const { sinceMs, stepMs } = RANGES[range];
    return this.reads.run(async (manager) => {
      const points = await this.store.series(manager, sinceMs, stepMs);
      const backlog = await this.relays.backlog(manager);
      const instances = (await this.relays.list(manager)).filter((one) => one.silentMs < SILENT_MS);
      return {
        range,
        stepMs,
        steps: stepsOf(points, sinceMs, stepMs, nowMs),
        rejectedBy: byReason(points),
        now: {
          ...backlog,
          running: instances.reduce((sum, one) => sum + one.running, 0),
          instances: instances.length,
        },
      };
    });
  }

  /** Rates of sources, from one read of the rollups of a day. */
  async rates(sources: readonly string[]): Promise<ReadonlyMap<string, SourceRates>> {
    const { day, hour } = RANGES;
    const [ofDay, ofHour] = await this.reads.run(async (manager) => [
      await this.store.series(manager, day.sinceMs, day.sinceMs, sources),
      await this.store.series(manager, hour.sinceMs, hour.sinceMs, sources),
    ]);
    return new Map(
      sources.map((source) => {
        const points = ofDay.filter((point) => point.source === source);
        const lately = ofHour.filter((point) => point.source === source);
        const rates = {
          hour: sumOf(lately, 'deliveries'),
          day: sumOf(points, 'deliveries'),
          duplicatesDay: sumOf(points, 'duplicates'),
          rejectedDay: sumOf(points, REJECTED),
          handledDay: sumOf(points, 'handled'),
          deadDay: sumOf(points, 'dead'),
        };
        return [source, rates];
      }),
    );
  }
}

function sumOf(points: readonly StatPoint[], metric: string): number {
  return points
    .filter((point) => point.metric.startsWith(metric))
    .reduce((total, { value }) => total + value, 0);
}

function stepsOf(points: readonly StatPoint[], sinceMs: number, stepMs: number, nowMs: number): Step[] {
  const byStep = new Map<number, Map<string, number>>();
  for (const { at, metric, value } of points) {
    const metrics = byStep.get(at.getTime()) ?? new Map<string, number>();
    metrics.set(metric, (metrics.get(metric) ?? 0) + value);
    byStep.set(at.getTime(), metrics);
  }
  const steps: Step[] = [];
  const last = Math.floor(nowMs / stepMs) * stepMs;
  for (let at = last - sinceMs + stepMs; at <= last; at += stepMs) {
    steps.push(stepOf(at, byStep.get(at) ?? new Map<string, number>()));
  }
  return steps;
}

function stepOf(at: number, metrics: ReadonlyMap<string, number>): Step {
  const count = (metric: string) => metrics.get(metric) ?? 0;
  const rejected = [...metrics].filter(([metric]) => metric.startsWith(REJECTED));
  return {
    at,
    deliveries: count('deliveries'),
    handled: count('handled'),
    duplicates: count('duplicates'),
    rejected: rejected.reduce((sum, [, value]) => sum + value, 0),
    rejectedBy: Object.fromEntries(rejected.map(([metric, value]) => [metric.slice(REJECTED.length), value])),
    retried: count('retried'),
    dead: count('dead'),
    lost: count('lost'),
    unavailable: count('unavailable') + count('failed'),
    ackP50: percentile(metrics, 0.5),
    ackP99: percentile(metrics, 0.99),
    backlogMs: metrics.get('max:backlog-ms') ?? null,
    pending: metrics.get('max:pending') ?? null,
    running: metrics.get('max:running') ?? null,
    deadRows: metrics.get('max:dead') ?? null,
  };
}

/** Linear within its bucket, which is the precision of a histogram. */
function percentile(metrics: ReadonlyMap<string, number>, part: number): number | null {
  const bounds = [...ACK_BUCKETS_MS, Infinity];
  const counts = bounds.map((bound) => metrics.get(`ack:${bound}`) ?? 0);
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let before = 0;
  for (const [index, count] of counts.entries()) {
    if (count > 0 && before + count >= part * total) {
      const from = index === 0 ? 0 : bounds[index - 1]!;
      const to = bounds[index] === Infinity ? from : bounds[index]!;
      return Math.round((from + ((part * total - before) / count) * (to - from)) * 10) / 10;
    }
    before += count;
  }
  return null;
}

function byReason(points: readonly StatPoint[]): { reason: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const { metric, value } of points) {
    if (!metric.startsWith(REJECTED)) continue;
    const reason = metric.slice(REJECTED.length);
    counts.set(reason, (counts.get(reason) ?? 0) + value);
  }
  return [...counts].map(([reason, count]) => ({ reason, count })).sort((a, b) => b.count - a.count);
}
