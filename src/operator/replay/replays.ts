import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { z } from 'zod';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { checkDecider, type Decider } from '../../core/decider.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import type { EventKey } from '../../core/event.js';
import { logLine } from '../../core/log/log.js';
import { uuidV7 } from '../../core/ids.js';
import { sleep } from '../../core/time/waits.js';
import { checkInput } from '../../core/options/schema.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { OwedRows } from '../../inbox/catch-up/owed-rows.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { WakeUp } from '../../outbox/wake/wake-up.js';
import { Audit, targetOfEvents } from '../../storage/desk/audit.js';
import { ClaimStore } from '../../storage/claim.store.js';
import { inTransaction } from '../../storage/postgres/connection.js';
import type { NewEffects } from '../../storage/leased-rows.js';
import { ReplayStore } from '../../storage/desk/replay.store.js';
import type { BulkOptions } from './bulk.options.js';
import { Forwarder, type ForwardOptions, type ForwardReport } from './forwarder.js';
import { checkSelection, type ReplaySelection } from './replay-selection.js';
import { ReplayPlanner, type ReplayPlan } from './replay.planner.js';

export type { ReplaySelection } from './replay-selection.js';

/** Options of `Replays.run`. */
export interface ReplayOptions extends BulkOptions<ReplayReport> {
  /** Effects that are to happen once more although they are done. Each gets a new id, and so a new idempotency key. @default none */
  readonly refire?: readonly string[];
  /**
   * How to treat new effects of handlers that were done for an event. Such an effect may be one that was done under another name or key.
   * `refuse` rolls the run back, its row is done as before, and the next preview lists them. @default 'refuse'
   */
  readonly newEffects?: NewEffects;
}

/** Counts of one replay. */
export interface ReplayReport {
  /** To go on with when the replay was interrupted. */
  readonly id: string;
  readonly replayed: number;
  /** Taken before under this id. */
  readonly skipped: number;
  /** Events that cannot be replayed, with the reason. */
  readonly refused: readonly ReplayPlan[];
}

const DEFAULT_LIMIT = 1_000;
const LOCK_TIMEOUT_MS = 5_000;

/**
 * Runs settled events again: today's matching handlers, under the ids they had, so that effects which are done stay done, unless a
 * person asks for exactly that.
 */
@Injectable()
export class Replays {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly registry: HandlerRegistry,
    private readonly claims: ClaimStore,
    private readonly store: ReplayStore,
    private readonly owedRows: OwedRows,
    private readonly planner: ReplayPlanner,
    private readonly forwarder: Forwarder,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
    private readonly lifecycle: WebhookLifecycle,
  ) {}

  /**
   * The plan of a replay for each event. Changes nothing.
   * @throws InputRefused for a selection with unknown criteria, or with none and no `all: true`, as `run` and `forward` do. They also throw
   * it without `by` or `reason`
   * @throws WebhookInboxError UNKNOWN_EFFECT as `run` does
   */
  async preview(
    selection: ReplaySelection,
    refire: readonly string[] = [],
    newEffects: NewEffects = 'refuse',
  ): Promise<ReplayPlan[]> {
    const { manager } = this.dataSource;
    const plans: ReplayPlan[] = [];
    const names = this.namesOf(refire);
    for (const key of await this.select(selection))
      plans.push(await this.planner.plan(manager, key, names, newEffects));
    return plans;
  }

  /**
   * Replays the events of a selection, each in a transaction of its own. It can be interrupted, and run again under its id.
   * @throws WebhookInboxError UNKNOWN_EFFECT when `refire` names an unknown effect
   */
  async run(selection: ReplaySelection, options: ReplayOptions): Promise<ReplayReport> {
    checkDecider(options);
    checkInput(z.enum(['refuse', 'allow']).optional(), options.newEffects, 'newEffects');
    checkSelection(selection);
    const id = options.id ?? uuidV7();
    const { refire = [], newEffects = 'refuse' } = options;
    // With its id: under it a replay that failed half-way goes on, and refires nothing twice.
    const deed = { action: 'replay', target: targetOf(selection), detail: { id, refire, newEffects } };
    return this.audit.record(deed, options, async () => {
      const report = await this.runNow(selection, id, this.namesOf(refire), options);
      const { replayed, skipped, refused } = report;
      return [report, { id, replayed, skipped, refused: refused.length }];
    });
  }

  /**
   * Effects by their names of today.
   * @throws WebhookInboxError UNKNOWN_EFFECT
   */
  private namesOf(refire: readonly string[]): string[] {
    return refire.map((name) => this.registry.knownEffect(name).name);
  }

  private async runNow(
    selection: ReplaySelection,
    id: string,
    refire: readonly string[],
    options: ReplayOptions,
  ): Promise<ReplayReport> {
    const refused: ReplayPlan[] = [];
    let [replayed, skipped] = [0, 0];
    const keys = await this.select(selection, id);
    for (const [index, key] of keys.entries()) {
      if (index > 0 && options.perSecond !== undefined)
        await sleep(1_000 / options.perSecond, options.signal);
      if (options.signal?.aborted === true) break;
      const outcome = await this.replay(key, id, refire, options);
      if (outcome === 'replayed') {
        replayed += 1;
        this.lifecycle.emit('replayed', () => key);
      } else if (outcome === 'skipped') skipped += 1;
      else refused.push(outcome);
      options.onProgress?.({ id, replayed, skipped, refused: [...refused] }, keys.length);
    }
    this.logger.log(
      logLine('replay', {
        id,
        by: options.by,
        reason: options.reason,
        replayed,
        skipped,
        refused: refused.length,
      }),
    );
    return { id, replayed, skipped, refused };
  }

  /**
   * Sends the stored bytes and headers of a selection on to another URL, byte for byte; nothing changes here. A receiver that
   * verifies needs the signature's header: have the source keep it (`keepHeaders`). An event of a batch is sent as its own part of
   * the body, which no signature covers.
   * @throws DestinationRefused for a URL that is not https to a public address, unless `allow` opens it
   */
  async forward(
    selection: ReplaySelection,
    url: string | URL,
    options: ForwardOptions,
  ): Promise<ForwardReport> {
    checkDecider(options);
    checkSelection(selection);
    const id = options.id ?? uuidV7();
    const how = {
      ...(options.sign && { signed: true }),
      ...(options.body !== undefined && { edited: true }),
    };
    const deed = {
      action: 'forward',
      target: targetOf(selection),
      detail: { id, to: withoutSecrets(url), ...how },
    };
    return this.audit.record(deed, options, async () => {
      const report = await this.forwarder.forward(await this.select(selection, id), url, { ...options, id });
      const { forwarded, skipped, failed, refused, gaveUp } = report;
      return [report, { forwarded, skipped, failed: failed.length, refused: refused.length, gaveUp }];
    });
  }

  private async replay(
    key: EventKey,
    replayId: string,
    refire: readonly string[],
    options: ReplayOptions,
  ): Promise<'replayed' | 'skipped' | ReplayPlan> {
    const { by, reason, newEffects = 'refuse' } = options;
    const outcome = await inTransaction(this.dataSource.manager, LOCK_TIMEOUT_MS, async (manager) => {
      // Locked, so that the body that is there now is there when the handler runs, and two replays do not mix.
      const claim = await this.claims.load(manager, key, true);
      if (claim !== undefined && (await this.store.isTaken(manager, replayId, claim.id))) return 'skipped';
      const plan = await this.planner.plan(manager, key, refire, newEffects);
      if (plan.refused !== undefined) return plan;
      await this.store.take(manager, replayId, plan.id!, by, reason);
      await this.owe(manager, plan, replayId, refire, { by, reason, newEffects });
      return 'replayed';
    });
    if (outcome === 'replayed') this.wakeUp.wake();
    return outcome;
  }

  private async owe(
    manager: EntityManager,
    plan: ReplayPlan,
    replayId: string,
    refire: readonly string[],
    { newEffects, ...decider }: Decider & { readonly newEffects: NewEffects },
  ): Promise<void> {
    for (const { handler, rowId } of plan.run) {
      if (rowId === undefined) {
        await this.owedRows.add(manager, { ...plan.event, id: plan.id! }, this.registry.handler(handler)!);
        continue;
      }
      const generation = await this.store.replayRow(manager, rowId, refire.length > 0, newEffects, decider);
      if (generation === undefined) continue;
      for (const effect of refire) await this.store.refire(manager, rowId, effect, generation, replayId);
    }
  }

  /** In the order of arrival, so that what is replayed runs as it came, however the events were named. */
  private async select(selection: ReplaySelection, replayId?: string): Promise<readonly EventKey[]> {
    checkSelection(selection);
    const { manager } = this.dataSource;
    if ('events' in selection) {
      const keys = selection.events.map((event) => ({ ...event, tenant: event.tenant ?? '' }));
      return this.store.byArrival(manager, keys);
    }
    const { limit = DEFAULT_LIMIT, all: _all, ...criteria } = selection;
    return this.store.select(manager, criteria, limit, replayId);
  }
}

function targetOf(selection: ReplaySelection): string {
  if ('events' in selection)
    return targetOfEvents(selection.events.map((event) => ({ ...event, tenant: event.tenant ?? '' })));
  return `events with ${JSON.stringify(selection)}`;
}

/** Credentials, path and query of a URL are often secrets: a chat's incoming webhook has its own in the path. */
function withoutSecrets(url: string | URL): string {
  return URL.canParse(String(url)) ? new URL(url).origin : '';
}
