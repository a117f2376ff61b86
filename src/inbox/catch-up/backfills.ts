import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { BodyReader } from '../../core/body.js';
import { isWholeDatabases } from '../../core/classify.js';
import { EventIdUnusable, WebhookInboxError } from '../../core/errors.js';
import { eventId } from '../../core/ids.js';
import { byKey, keyText } from '../../core/event.js';
import { knownSource } from '../../core/options/known-source.js';
import type { Decider } from '../../core/decider.js';
import { lazyKind } from '../../core/lazy.js';
import { errorText, logLine } from '../../core/log/log.js';
import { RequestHeaders } from '../../core/request.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { Source } from '../../core/options/resolve-source.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { BackfillEvent, ListEvents } from '../../handlers/backfill-source.decorator.js';
import { BackfillExplorer } from '../../handlers/backfill.explorer.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { WakeUp } from '../../outbox/wake/wake-up.js';
import { Audit } from '../../storage/desk/audit.js';
import { ClaimStore } from '../../storage/claim.store.js';
import { Claimer } from '../claimer.js';
import { incomingEvents, type IncomingEvent } from '../delivery.js';

/** With `by` and `reason` where a person asks for it: that stands in the audit. */
export interface BackfillOptions extends Partial<Decider> {
  /** Events that happened from then on; not before what the source's claims are kept for. */
  readonly since: Date;
  /** Events that happened later are left out: their webhooks may be on the way. @default none is left out */
  readonly until?: Date;
  /** Stops between two events. */
  readonly signal?: AbortSignal;
  /** Called after each batch of claims. */
  readonly onProgress?: (report: BackfillReport) => void;
}

/** Counts of one backfill. */
export interface BackfillReport {
  /** Events that the list held. */
  readonly seen: number;
  /** Events that were new: they will be handled. */
  readonly claimed: number;
  /** Events that were known; nothing of them is touched. */
  readonly known: number;
  /** Events from before what claims are kept for: they may have been handled and forgotten. */
  readonly tooOld: number;
  /** Events without a usable id. */
  readonly unusable: number;
}

const BATCH = 100;

/**
 * Claims the events of a provider's own list. An event that a webhook has brought is a duplicate. Any other event is claimed as if a
 * webhook had brought it, with origin `backfill`. It is safe to stop it, to run it again, and to run it while webhooks arrive.
 */
@Injectable()
export class Backfills {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly explorer: BackfillExplorer,
    private readonly registry: HandlerRegistry,
    private readonly claimer: Claimer,
    private readonly claims: ClaimStore,
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
  ) {}

  /**
   * @throws WebhookInboxError UNKNOWN_SOURCE
   * @throws WebhookInboxError BACKFILL_REFUSED when `since` lies before the retention of claims, when no method lists the source's events,
   * or when only routes handle them
   * @throws the error of the method
   */
  async run(sourceName: string, options: BackfillOptions): Promise<BackfillReport> {
    const deed = { action: 'backfill', target: sourceName, detail: { since: String(options.since) } };
    return this.audit.recordIfAsked(deed, options, async () => {
      const report = await this.runNow(sourceName, options);
      return [report, { ...report }];
    });
  }

  /**
   * Counts the events that `run` would claim. Reads the provider's list, and changes nothing.
   * @throws as `run` does
   */
  async preview(sourceName: string, options: BackfillOptions): Promise<BackfillReport> {
    return this.forEachBatch(sourceName, options, (events) => this.countUnknown(events));
  }

  private async runNow(sourceName: string, options: BackfillOptions): Promise<BackfillReport> {
    const report = await this.forEachBatch(sourceName, options, (events) => this.claim(events));
    const since = options.since.toISOString();
    this.logger.log(logLine('backfill ended', { source: sourceName, since, ...report }));
    return report;
  }

  /** @param take gives how many of a batch's events are new */
  private async forEachBatch(
    sourceName: string,
    { since, until, signal, onProgress }: BackfillOptions,
    take: (events: readonly IncomingEvent[]) => Promise<number>,
  ): Promise<BackfillReport> {
    const { source, list } = this.checkBackfillable(sourceName, since);
    const report = { seen: 0, claimed: 0, known: 0, tooOld: 0, unusable: 0 };
    const batch: IncomingEvent[] = [];
    const flush = async () => {
      const claimed = await take(batch);
      report.claimed += claimed;
      report.known += batch.length - claimed;
      batch.length = 0;
      onProgress?.({ ...report });
    };
    const never = new AbortController().signal;
    for await (const item of await listed(sourceName, list(since, { signal: signal ?? never }))) {
      report.seen += 1;
      for (const event of this.read(source, item, report))
        if (until === undefined || !(event.occurredAt && event.occurredAt > until)) batch.push(event);
      if (batch.length >= BATCH) await flush();
      if (signal?.aborted === true) break;
    }
    await flush();
    return report;
  }

  private checkBackfillable(name: string, since: Date): { source: Source; list: ListEvents } {
    const source = knownSource(this.options, name);
    const list = this.explorer.list(name);
    if (list === undefined)
      throw refused(`no method has @BackfillSource('${name}'): write one that yields the provider's list`);
    if ([...this.registry.routes().values()].some((route) => route.source === name))
      throw refused(`source '${name}' has a route with @UseWebhook, which only a delivery can run`);
    // A claim is kept by its arrival, which is never before the event. So an event within the window is still known if it ever came.
    if (!(since.getTime() >= Date.now() - source.retentionMs)) {
      throw refused(
        `expected \`since\` within the ${source.retentionMs / 86_400_000} days that claims of source '${name}' are kept, received ` +
          `${String(since)}: events before that may have been handled and forgotten, and would be handled twice`,
      );
    }
    return { source, list };
  }

  /** The events of one item, with the ids that a webhook would give them. */
  private read(source: Source, item: BackfillEvent, report: { tooOld: number; unusable: number }) {
    const { body, headers = {}, tenant = '' } = item;
    const isBytes = body instanceof Uint8Array;
    const rawBody = isBytes ? Buffer.from(body) : Buffer.from(JSON.stringify(body ?? null));
    const type = isBytes ? undefined : 'application/json';
    const request = {
      method: 'POST',
      url: `/webhooks/${source.name}`,
      headers: RequestHeaders.from({ 'content-type': type, ...headers }),
      rawBody,
    };
    try {
      const listed = incomingEvents({
        source,
        request,
        body: new BodyReader(rawBody),
        tenant: tenant === '' ? '' : eventId(tenant, 'the tenant'),
        verifiedBy: 'backfill',
        stale: false,
      });
      const events = listed.filter(({ unusable }) => unusable === undefined);
      report.unusable += listed.length - events.length;
      const oldest = Date.now() - source.retentionMs;
      const young = events.filter(({ occurredAt }) => (occurredAt?.getTime() ?? Infinity) >= oldest);
      report.tooOld += events.length - young.length;
      return young;
    } catch (error) {
      if (!(error instanceof EventIdUnusable)) throw error;
      report.unusable += 1;
      this.logger.warn(logLine(`not backfilled: ${errorText(error)}`, { source: source.name }));
      return [];
    }
  }

  /** How many are not claimed yet. */
  private async countUnknown(events: readonly IncomingEvent[]): Promise<number> {
    const unique = new Map(events.map((event) => [keyText(event), event]));
    let count = 0;
    for (const event of unique.values())
      if ((await this.claims.find(this.dataSource.manager, event)) === undefined) count += 1;
    return count;
  }

  /** Returns how many were new. Sorted and unique, as any batch of claims. */
  private async claim(events: readonly IncomingEvent[]): Promise<number> {
    const unique = new Map(events.map((event) => [keyText(event), event]));
    const sorted = [...unique.values()].sort(byKey);
    if (sorted.length === 0) return 0;
    let claimed = 0;
    try {
      claimed = await this.claimTogether(sorted);
    } catch (error) {
      if (sorted.length === 1 || isWholeDatabases(error)) throw error;
      await this.claimEach(sorted, (count) => (claimed += count));
    } finally {
      if (claimed > 0) this.wakeUp.wake();
    }
    return claimed;
  }

  /** One event that PostgreSQL refuses keeps none of the others out. @throws its error, after their end */
  private async claimEach(
    events: readonly IncomingEvent[],
    onClaimed: (count: number) => void,
  ): Promise<void> {
    const refused: unknown[] = [];
    for (const event of events) {
      try {
        onClaimed(await this.claimTogether([event]));
      } catch (error) {
        if (isWholeDatabases(error)) throw error;
        refused.push(error);
      }
    }
    if (refused.length > 0) throw refused[0];
  }

  private async claimTogether(events: readonly IncomingEvent[]): Promise<number> {
    const claims = events.map((event) => ({
      event,
      origin: 'backfill' as const,
      rows: this.registry.match(event.source, event.type).map(({ name }) => this.claimer.rowFor(event, name)),
    }));
    const results = await this.claimer.transaction((manager, secondTry) =>
      this.claimer.claim(manager, claims, secondTry),
    );
    return results.filter(({ won }) => won).length;
  }
}

/**
 * The provider's list, one event after the other. A promise of a list is awaited.
 * @throws WebhookInboxError
 */
async function listed(source: string, value: unknown): Promise<AsyncIterable<BackfillEvent>> {
  const list = await value;
  if (typeof list === 'object' && list !== null && (Symbol.asyncIterator in list || Symbol.iterator in list))
    return list as AsyncIterable<BackfillEvent>;
  throw refused(
    `the method with @BackfillSource('${source}') returned ${lazyKind(list) ?? 'no list'}: expected an async iterable, ` +
      'as an async generator (async *list) returns',
  );
}

function refused(detail: string): WebhookInboxError {
  return new WebhookInboxError('BACKFILL_REFUSED', `Backfill refused: ${detail}`);
}
