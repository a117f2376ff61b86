import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLogger } from '../core/inbox.logger.js';
import { InputRefused } from '../core/errors.js';
import type { EventKey } from '../core/event.js';
import { errorText, logLine } from '../core/log.js';
import { uuidV7 } from '../core/outbox-id.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { AuditStore, type AuditEntry } from '../storage/audit.store.js';
import { DeadStore, type DeadGroup } from '../storage/dead.store.js';
import type { ParkedDecision } from '../storage/decision.store.js';
import type { NewEffects } from '../storage/leased.rows.js';
import type { Pause, PauseKind } from '../storage/pause.store.js';
import { checkDecider, type Decider } from './decider.js';
import { Erasure, type ErasureReport } from './erasure.js';
import type { ForwardOptions, ForwardReport } from './forwarder.js';
import { Parked } from './parked.js';
import { Pauses } from './pauses.js';
import type { ReplayPlan } from './replay.planner.js';
import { Replays, type ReplayReport } from './replays.js';
import { Revivals } from './revivals.js';
import { SecondLook, type SecondLookReport } from './second.look.js';

/** Most rows or events that one call may act on; a person's larger selection goes in several calls. */
export const MAX_AT_ONCE = 500;

/**
 * Everything a person can do, with an audit: a row is written before the deed, so that nothing is done which is not noted, and its
 * outcome is added after it. Each throws InputRefused without `by` or `reason`.
 */
@Injectable()
export class Operator {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly audit: AuditStore,
    private readonly dead: DeadStore,
    private readonly secondLook: SecondLook,
    private readonly replays: Replays,
    private readonly revivals: Revivals,
    private readonly parked: Parked,
    private readonly erasure: Erasure,
    private readonly pauses: Pauses,
  ) {}

  /** Gives dead rows new attempts. Returns the ids of those that were dead. */
  async revive(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    return this.audited({ action: 'revive', ...rowsOf(outboxIds) }, decider, async () => {
      const revived = await this.revivals.revive(outboxIds, decider);
      return [revived, { revived: revived.length }];
    });
  }

  /** Lets dead rows be, for good. Returns the ids of those that were dead and not given up before. */
  async giveUp(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    return this.audited({ action: 'give up', ...rowsOf(outboxIds) }, decider, async () => {
      const givenUp = await this.revivals.giveUp(outboxIds, decider);
      return [givenUp, { givenUp: givenUp.length }];
    });
  }

  /** A person's word on a group of dead rows that died of one error. `open` takes it back. */
  async setIssue(fingerprint: string, state: DeadGroup['state'], decider: Decider): Promise<void> {
    await this.audited({ action: `issue ${state}`, target: fingerprint }, decider, async () => {
      const { by, reason } = decider;
      await this.dead.setState(this.dataSource.manager, fingerprint, state, by, reason);
      return [undefined, {}];
    });
  }

  /** Verifies a batch of a source's kept rejections again; see `SecondLook`. */
  async verifyAgain(source: string, after: string | undefined, decider: Decider): Promise<SecondLookReport> {
    return this.audited({ action: 'verify again', target: source }, decider, async () => {
      const report = await this.secondLook.run(source, after);
      return [report, { ...report }];
    });
  }

  /** Notes that a person is shown stored content. Before it is shown: what cannot be noted is not shown. */
  async revealed(what: string, how: 'shown' | 'downloaded', decider: Decider): Promise<void> {
    await this.audited({ action: `content ${how}`, target: what }, decider, async () => [undefined, {}]);
  }

  /** What a replay would run, and what stays done. Changes nothing. */
  async previewReplay(
    events: readonly EventKey[],
    refire: readonly string[] = [],
    newEffects: NewEffects = 'refuse',
  ): Promise<ReplayPlan[]> {
    capped(events.length);
    return this.replays.preview({ events }, refire, newEffects);
  }

  /**
   * @param refire names of effects that are to happen once more although they are done
   * @param newEffects what becomes of effects that a handler which was done for an event enqueues for the first time
   */
  async replay(
    events: readonly EventKey[],
    refire: readonly string[],
    decider: Decider,
    newEffects: NewEffects = 'refuse',
  ): Promise<ReplayReport> {
    capped(events.length);
    // Noted before the deed: under it a replay that failed half-way goes on, and refires nothing twice.
    const id = uuidV7();
    const entry = { action: 'replay', target: targetOf(events), detail: { id, refire, newEffects } };
    return this.audited(entry, decider, async () => {
      const report = await this.replays.run({ events }, { ...decider, refire, newEffects, id });
      const { replayed, skipped, refused } = report;
      return [report, { id, replayed, skipped, refused: refused.length }];
    });
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
  ): Promise<ForwardReport> {
    capped(events.length);
    // As of a replay: what is at the other side already is not sent again.
    const id = uuidV7();
    const entry = { action: 'forward', target: targetOf(events), detail: { id, to: withoutSecrets(url) } };
    return this.audited(entry, decider, async () => {
      const report = await this.replays.forward({ events }, url, { ...decider, allow, id });
      const { forwarded, skipped, failed, refused, gaveUp } = report;
      return [report, { forwarded, skipped, failed: failed.length, refused: refused.length, gaveUp }];
    });
  }

  /**
   * Decides about an effect in doubt.
   * @returns false when it is not parked
   */
  async decide(outboxId: string, decision: ParkedDecision, decider: Decider): Promise<boolean> {
    return this.audited({ action: `parked ${decision}`, target: outboxId }, decider, async () => {
      const decided = await this.parked.decide(outboxId, decision, decider);
      return [decided, { decided }];
    });
  }

  /** Removes an event's content; the tombstone stays, so that a redelivery is a duplicate. */
  async erase(event: EventKey, decider: Decider): Promise<ErasureReport> {
    return this.audited({ action: 'erase', target: targetOf([event]) }, decider, async () => {
      const report = await this.erasure.erase(event, decider);
      const { outcome, cancelled, possiblySent, sent } = report;
      const counts = { cancelled: cancelled.length, possiblySent: possiblySent.length, sent: sent.length };
      return [report, { outcome, ...counts }];
    });
  }

  /** @returns false when it was paused already */
  async pause(kind: PauseKind, name: string, decider: Decider): Promise<boolean> {
    return this.audited({ action: 'pause', target: `${kind} ${name}` }, decider, async () => {
      const changed = await this.pauses.pause(kind, name, decider);
      return [changed, { changed }];
    });
  }

  /** @returns false when it was not paused */
  async resume(kind: PauseKind, name: string, decider: Decider): Promise<boolean> {
    return this.audited({ action: 'resume', target: `${kind} ${name}` }, decider, async () => {
      const changed = await this.pauses.resume(kind, name, decider);
      return [changed, { changed }];
    });
  }

  async paused(): Promise<readonly Pause[]> {
    return this.pauses.list();
  }

  private async audited<T>(
    entry: Omit<AuditEntry, 'actor' | 'reason'>,
    decider: Decider,
    act: () => Promise<[T, Readonly<Record<string, unknown>>]>,
  ): Promise<T> {
    checkDecider(decider);
    const { by, reason } = decider;
    const id = await this.audit.begin(this.dataSource.manager, { ...entry, actor: by, reason });
    try {
      const [result, outcome] = await act();
      await this.ended(id, outcome);
      return result;
    } catch (error) {
      await this.ended(id, { failed: errorText(error) });
      throw error;
    }
  }

  /** The deed is done, or is not: that its outcome could not be added must not say otherwise. */
  private async ended(id: string, outcome: Readonly<Record<string, unknown>>): Promise<void> {
    try {
      await this.audit.end(this.dataSource.manager, id, outcome);
    } catch (error) {
      this.logger.warn(logLine(`audit row without its outcome: ${errorText(error)}`, { audit: id }));
    }
  }
}

function capped(count: number): void {
  if (count < 1 || count > MAX_AT_ONCE)
    throw new InputRefused(`expected 1 to ${MAX_AT_ONCE} at once, received ${count}`);
}

/** Query and credentials of a URL are often secrets of its owner's. */
function withoutSecrets(url: string): string {
  if (!URL.canParse(url)) return '';
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

function rowsOf(ids: readonly string[]): Pick<AuditEntry, 'target' | 'detail'> {
  capped(ids.length);
  const [first] = ids;
  return { target: ids.length === 1 ? first! : `${ids.length} rows, ${first} first`, detail: { ids } };
}

function targetOf(events: readonly EventKey[]): string {
  const [first] = events;
  const name =
    first === undefined ? '' : `${first.source} ${first.tenant} ${first.eventId}`.replace('  ', ' ');
  return events.length === 1 ? name : `${events.length} events, ${name} first`;
}
