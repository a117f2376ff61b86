import { Inject, Injectable } from '@nestjs/common';
import { Alerts } from '../core/telemetry/alerts.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Counted } from '../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import type { Backlog } from '../storage/desk/relay.store.js';
import { Hysteresis } from '../core/time/hysteresis.js';

const MINUTE_MS = 60_000;
/** Conflicts in a minute. So many are alerted one by one. */
const CONFLICTS = 10;
const RATIO_WINDOW_MS = 5 * 60_000;
/** Below this many deliveries a ratio says nothing. */
const RATIO_DELIVERIES = 100;

/** Watches the counts of this process and the backlog of all, and raises alerts for a person. */
@Injectable()
export class Watch {
  private readonly hysteresis = new Hysteresis();
  private unknownNames: readonly string[] = [];
  private seen: { readonly atMs: number; readonly metrics: Counted['metrics'] }[] = [];

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly alerts: Alerts,
  ) {}

  /** Adds the counts since the last call. */
  counted(metrics: Counted['metrics'], nowMs = performance.now()): void {
    this.seen.push({ atMs: nowMs, metrics });
    this.seen = this.seen.filter(({ atMs }) => atMs > nowMs - RATIO_WINDOW_MS);
    for (const source of ['', ...this.options.sources.keys()]) {
      this.rejections(source, nowMs);
      this.conflicts(source, nowMs);
      this.duplicates(source, nowMs);
    }
  }

  /** The backlog as the database has it. */
  backlog({ overdue }: Backlog): void {
    const thresholdMs = this.options.alerts.backlogMs;
    const worst = overdue[0] ?? { name: '', ageMs: 0 };
    if (this.hysteresis.shouldAlert('backlog', worst.ageMs, thresholdMs)) {
      this.alerts.raise({ kind: 'backlog', name: worst.name, ageMs: Math.round(worst.ageMs), thresholdMs });
    }
  }

  /** Names that no instance has code for, with how many rows have waited. Each once, and again only after its rows were gone. */
  unknown(names: readonly { readonly name: string; readonly rows: number }[]): void {
    const rows = new Map(names.map((one) => [one.name, one.rows]));
    for (const name of new Set([...this.unknownNames, ...rows.keys()])) {
      const count = rows.get(name) ?? 0;
      if (this.hysteresis.shouldAlert(`unknown ${name}`, count, 1))
        this.alerts.raise({ kind: 'unknown-name', name, rows: count });
    }
    this.unknownNames = [...rows.keys()];
  }

  private rejections(source: string, nowMs: number): void {
    const threshold = this.options.alerts.rejections;
    const count = this.sum(source, nowMs - MINUTE_MS, (metric) => metric.startsWith('rejected:'));
    if (this.hysteresis.shouldAlert(`rejections ${source}`, count, threshold)) {
      this.alerts.raise({ kind: 'rejection-burst', source, count, threshold });
    }
  }

  private conflicts(source: string, nowMs: number): void {
    const count = this.sum(source, nowMs - MINUTE_MS, (metric) => metric === 'conflicts');
    if (this.hysteresis.shouldAlert(`conflicts ${source}`, count, CONFLICTS)) {
      this.alerts.raise({ kind: 'conflict-burst', source, count, threshold: CONFLICTS });
    }
  }

  private duplicates(source: string, nowMs: number): void {
    const threshold = this.options.alerts.duplicateRatio;
    const since = nowMs - RATIO_WINDOW_MS;
    const deliveries = this.sum(source, since, (metric) => metric === 'deliveries');
    const duplicates = this.sum(source, since, (metric) => metric === 'duplicates');
    const ratio = deliveries < RATIO_DELIVERIES ? 0 : duplicates / deliveries;
    if (this.hysteresis.shouldAlert(`duplicates ${source}`, ratio, threshold)) {
      this.alerts.raise({ kind: 'duplicate-ratio', source, deliveries, duplicates, threshold });
    }
  }

  private sum(source: string, sinceMs: number, matches: (metric: string) => boolean): number {
    return this.seen
      .filter(({ atMs }) => atMs > sinceMs)
      .flatMap(({ metrics }) => metrics)
      .filter((one) => one.source === source && matches(one.metric))
      .reduce((total, { value }) => total + value, 0);
  }
}
