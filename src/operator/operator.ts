import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { InputRefused } from '../core/errors.js';
import type { EventKey } from '../core/event.js';
import { checkInput } from '../core/options/schema.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { Audit } from '../storage/desk/audit.js';
import { DeadStore, type DeadGroup } from '../storage/desk/dead.store.js';
import type { ParkedDecision } from '../storage/desk/decision.store.js';
import type { NewEffects } from '../storage/leased-rows.js';
import type { Pause, PauseKind } from '../storage/pause.store.js';
import type { Decider } from '../core/decider.js';
import type { BackfillReport } from '../inbox/catch-up/backfills.js';
import { GapFinder } from '../inbox/catch-up/gap.finder.js';
import { CallBacks } from './call-backs.js';
import { Erasure, type ErasureReport } from './erasure.js';
import type { ForwardOptions, ForwardReport } from './replay/forwarder.js';
import { MAX_AT_ONCE } from './replay/bulk.options.js';
import { Inspector, type InspectedSecret } from './inspector.js';
import { Parked } from './parked.js';
import { Pauses } from './pauses.js';
import type { ReplayPlan } from './replay/replay.planner.js';
import { Replays, type ReplayReport } from './replay/replays.js';
import { Revivals, type NotDead, type RevivalPlan, type RowProgress } from './revivals.js';
import { SecondLook, type SecondLookReport } from './explain/second-look.js';

/**
 * Everything a person can do, each with a row in the audit before it (see `Audit`). Each throws InputRefused without `by` or `reason`,
 * and where they are blank.
 */
@Injectable()
export class Operator {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly audit: Audit,
    private readonly dead: DeadStore,
    private readonly secondLook: SecondLook,
    private readonly replays: Replays,
    private readonly revivals: Revivals,
    private readonly parked: Parked,
    private readonly callBacks: CallBacks,
    private readonly erasure: Erasure,
    private readonly pauses: Pauses,
    private readonly inspector: Inspector,
    private readonly gaps: GapFinder,
  ) {}

  /**
   * Gives dead rows new attempts. Returns the ids of those that were dead.
   * @see whyNotDead what the others are
   */
  async revive(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    capped(outboxIds.length);
    return this.revivals.revive(outboxIds, decider);
  }

  /** Why rows could not be revived or given up, in a sentence for each row. Dead rows are left out. */
  async whyNotDead(outboxIds: readonly string[]): Promise<NotDead[]> {
    return this.revivals.whyNotDead(outboxIds);
  }

  /** Why an action on a row has changed nothing, in one sentence: its state, and the person who acted on it last. */
  async whyUnchanged(outboxId: string): Promise<string> {
    return this.revivals.whyUnchanged(outboxId);
  }

  /** The work that a revival would run, and the effects that stay done. Changes nothing. */
  async previewRevive(outboxIds: readonly string[]): Promise<RevivalPlan> {
    capped(outboxIds.length);
    return this.revivals.preview(outboxIds);
  }

  /** How far rows have come that were revived, replayed or decided about. */
  async progress(outboxIds: readonly string[]): Promise<RowProgress> {
    capped(outboxIds.length);
    return this.revivals.progress(outboxIds);
  }

  /** Lets dead rows be, for good. Returns the ids of those that were dead and not given up before. */
  async giveUp(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    capped(outboxIds.length);
    return this.revivals.giveUp(outboxIds, decider);
  }

  /** A person's word on a group of dead rows that died of one error. `open` takes it back. */
  async setIssue(fingerprint: string, state: DeadGroup['state'], decider: Decider): Promise<void> {
    checkInput(z.enum(['open', 'acknowledged', 'resolved']), state, 'state');
    await this.audit.record({ action: `issue ${state}`, target: fingerprint }, decider, async () => {
      const { by, reason } = decider;
      await this.dead.setState(this.dataSource.manager, fingerprint, state, by, reason);
      return [undefined, {}];
    });
  }

  /** Verifies a batch of a source's kept rejections again; see `SecondLook`. */
  async verifyAgain(source: string, after: string | undefined, decider: Decider): Promise<SecondLookReport> {
    return this.audit.record({ action: 'verify again', target: source }, decider, async () => {
      const report = await this.secondLook.run(source, after);
      return [report, { ...report }];
    });
  }

  /** Records that a person reads stored content, before it is shown. If it cannot be recorded, it is not shown. */
  async revealed(what: string, how: 'shown' | 'downloaded', decider: Decider): Promise<void> {
    await this.audit.record({ action: `content ${how}`, target: what }, decider, async () => [undefined, {}]);
  }

  /** The work that a replay would run, and the effects that stay done. Changes nothing. */
  async previewReplay(
    events: readonly EventKey[],
    refire: readonly string[] = [],
    newEffects: NewEffects = 'refuse',
  ): Promise<ReplayPlan[]> {
    capped(events.length);
    return this.replays.preview({ events }, refire, newEffects);
  }

  /**
   * Runs events again, with today's handlers.
   * @param refire names of effects to call once more although they are done
   * @param newEffects what becomes of effects that a handler which was done for an event enqueues for the first time
   */
  async replay(
    events: readonly EventKey[],
    refire: readonly string[],
    decider: Decider,
    newEffects: NewEffects = 'refuse',
    id?: string,
  ): Promise<ReplayReport> {
    capped(events.length);
    return this.replays.run({ events }, { ...decider, refire, newEffects, ...(id !== undefined && { id }) });
  }

  /**
   * Sends stored events on to another URL, byte for byte.
   * @param allow what the application opens beside https to public addresses
   * @throws DestinationRefused
   */
  async forward(
    events: readonly EventKey[],
    url: string,
    allow: ForwardOptions['allow'],
    decider: Decider,
    { sign, body, id }: Pick<ForwardOptions, 'sign' | 'body' | 'id'> = {},
  ): Promise<ForwardReport> {
    capped(events.length);
    const options = { ...decider, allow, sign, body, ...(id !== undefined && { id }) };
    return this.replays.forward({ events }, url, options);
  }

  /** Parks pending rows that no instance runs, until a person decides. Returns the ids of those that it parked. */
  async park(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    capped(outboxIds.length);
    return this.parked.park(outboxIds, decider);
  }

  /**
   * Decides about a parked row.
   * @returns false when it is not parked
   */
  async decide(outboxId: string, decision: ParkedDecision, decider: Decider): Promise<boolean> {
    return this.parked.decide(outboxId, decision, decider);
  }

  /**
   * Calls an effect back that has not begun.
   * @returns false when it is not pending any more, or is running
   */
  async cancel(outboxId: string, decider: Decider): Promise<boolean> {
    return this.callBacks.cancel(outboxId, decider);
  }

  /**
   * Claims what the provider's own list has and no webhook has brought, within the `lookback` of its `@BackfillSource`.
   * @throws WebhookInboxError UNKNOWN_SOURCE, BACKFILL_REFUSED
   */
  async findGaps(source: string, decider: Decider): Promise<BackfillReport> {
    return this.gaps.find(source, decider);
  }

  /** Removes an event's content; the tombstone stays, so that a redelivery is a duplicate. */
  async erase(event: EventKey, decider: Decider): Promise<ErasureReport> {
    return this.erasure.erase(event, decider);
  }

  /** @throws WebhookInboxError as `pause` does, for a name that no instance has */
  async checkPausable(kind: PauseKind, name: string): Promise<void> {
    await this.pauses.known(kind, name);
  }

  /** @returns false when it was paused already */
  async pause(kind: PauseKind, name: string, decider: Decider): Promise<boolean> {
    return this.pauses.pause(kind, name, decider);
  }

  /** Of a destination: it is called again. @returns false when it was not paused */
  async resume(kind: PauseKind | 'destination', name: string, decider: Decider): Promise<boolean> {
    return this.pauses.resume(kind, name, decider);
  }

  /**
   * The secrets of a source, each with whether it can go: for the end of a rotation.
   * @throws WebhookInboxError UNKNOWN_SOURCE
   */
  async secrets(source: string): Promise<readonly InspectedSecret[]> {
    return this.inspector.secrets(source);
  }

  /** The pauses that hold now. */
  async paused(): Promise<readonly Pause[]> {
    return this.pauses.list();
  }
}

function capped(count: number): void {
  if (count < 1 || count > MAX_AT_ONCE)
    throw new InputRefused(`expected 1 to ${MAX_AT_ONCE} at once, received ${count}`);
}
