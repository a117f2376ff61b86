import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { WebhookLifecycle } from '../core/telemetry/lifecycle-events.js';
import { logLine } from '../core/log/log.js';
import type { WebhookRequest } from '../core/request.js';
import { Tally } from '../core/telemetry/tally.js';

/** A rejected request that is worth an explanation. */
export interface RejectionSample {
  readonly at: Date;
  readonly source: string;
  readonly reason: string;
  readonly detail: string;
  readonly request: WebhookRequest;
}

const LOG_EVERY_MS = 1_000;
/** Where each request of a source may be one: an application that refuses its own webhooks does so all the time. */
const LOG_RARELY: Readonly<Record<string, number>> = { 'application-answer': 60_000 };
/** Samples that wait for their explanation, and how large each may be: anyone can send junk. */
const MAX_SAMPLES = 20;
const MAX_SAMPLE_BYTES = 256 * 1024;

interface Entry {
  count: number;
  unlogged: number;
  loggedAt: number;
  sampledAt: number;
}

/** Counts requests that were not believed, by source and reason, and logs them at a bounded rate: anyone can send junk. */
@Injectable()
export class Rejections {
  private readonly logger = new InboxLogger();
  private readonly counted = new Map<string, Entry>();
  private samples: RejectionSample[] = [];
  private sampleEveryMs = LOG_EVERY_MS;

  constructor(
    private readonly tally: Tally,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /**
   * Counts a refused request, and logs or samples it.
   * @param source name of a configured source, or '' for requests that reached none
   * @param detail a function where it is costly to make; it is called only for a log line or a sample
   * @param request set where the signature was checked, so that a sample of it can be explained later
   * @internal
   */
  add(source: string, reason: string, detail: string | (() => string), request?: WebhookRequest): void {
    const key = JSON.stringify([source, reason]);
    const entry = this.counted.get(key) ?? {
      count: 0,
      unlogged: 0,
      loggedAt: -Infinity,
      sampledAt: -Infinity,
    };
    entry.count += 1;
    this.counted.set(key, entry);
    this.tally.add(source, `rejected:${reason}`);
    this.lifecycle.emit('rejected', () => ({ source, reason }));
    const said = typeof detail === 'string' ? () => detail : detail;
    if (request !== undefined) this.sample(entry, said, { at: new Date(), source, reason, request });
    if (performance.now() - entry.loggedAt < (LOG_RARELY[reason] ?? LOG_EVERY_MS)) {
      entry.unlogged += 1;
      return;
    }
    const unlogged = entry.unlogged > 0 ? entry.unlogged : undefined;
    this.logger.warn(logLine(`rejected: ${said()}`, { source, reason, unlogged }));
    entry.unlogged = 0;
    entry.loggedAt = performance.now();
  }

  /** Counts since the process started. */
  counts(): { source: string; reason: string; count: number }[] {
    return [...this.counted].map(([key, { count }]) => {
      const [source, reason] = JSON.parse(key) as [string, string];
      return { source, reason, count };
    });
  }

  /** How far apart the samples of one source and reason are, in milliseconds. 0 takes all there is room for. @internal */
  sampleEvery(ms: number): void {
    this.sampleEveryMs = ms;
  }

  /** The samples since the last call. @internal */
  takeSamples(): RejectionSample[] {
    const samples = this.samples;
    this.samples = [];
    return samples;
  }

  private sample(entry: Entry, said: () => string, sample: Omit<RejectionSample, 'detail'>): void {
    if (sample.request.rawBody.length > MAX_SAMPLE_BYTES) return;
    if (performance.now() - entry.sampledAt < this.sampleEveryMs) return;
    if (this.samples.length >= MAX_SAMPLES && !this.makeRoom(sample.source)) return;
    entry.sampledAt = performance.now();
    this.samples.push({ ...sample, detail: said() });
  }

  /** The source with the most samples gives its last to one that has fewer: a flood at one URL must not hide another's fault. */
  private makeRoom(source: string): boolean {
    const counts = new Map([[source, 1]]);
    for (const one of this.samples) counts.set(one.source, (counts.get(one.source) ?? 0) + 1);
    const [most, count] = [...counts].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (most === source || count <= counts.get(source)!) return false;
    const last = this.samples.findLastIndex((one) => one.source === most);
    this.samples.splice(last, 1);
    return true;
  }
}
