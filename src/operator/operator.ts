import { Inject, Injectable, Optional } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { InputRefused } from '../core/errors.js';
import type { EventKey } from '../core/event.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { WakeUp } from '../outbox/wake-up.js';
import { AuditStore, type AuditEntry } from '../storage/audit.store.js';
import { DeadStore, type DeadGroup } from '../storage/dead.store.js';
import {
  ERASURE,
  PARKED,
  PAUSES,
  REPLAYS,
  type ErasurePort,
  type ParkedPort,
  type PauseKind,
  type PausePort,
  type ReplayPort,
  type Selection,
} from './ports.js';
import { SecondLook, type SecondLookReport } from './second.look.js';

/** Who does it, and why: both stand in the audit. */
export interface Deed {
  readonly by: string;
  readonly reason: string;
}

/** Most rows or events that one call may act on; a person's larger selection goes in several calls. */
export const MAX_AT_ONCE = 500;

/** Everything a person can do. Each deed leaves an audit row, in its own transaction where the deed is one of the database. */
@Injectable()
export class Operator {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly audit: AuditStore,
    private readonly dead: DeadStore,
    private readonly secondLook: SecondLook,
    private readonly wakeUp: WakeUp,
    @Optional() @Inject(REPLAYS) private readonly replays?: ReplayPort,
    @Optional() @Inject(PARKED) private readonly parked?: ParkedPort,
    @Optional() @Inject(ERASURE) private readonly erasure?: ErasurePort,
    @Optional() @Inject(PAUSES) private readonly pauses?: PausePort,
  ) {}

  /** Names of the actions that this application offers. */
  actions(): string[] {
    return [
      'revive',
      'issue',
      'verify-again',
      'reveal',
      ...(this.replays ? ['replay', 'forward'] : []),
      ...(this.parked ? ['decide'] : []),
      ...(this.erasure ? ['erase'] : []),
      ...(this.pauses ? ['pause'] : []),
    ];
  }

  /** Gives dead rows new attempts. Returns the ids of those that were dead. */
  async revive(outboxIds: readonly string[], deed: Deed): Promise<string[]> {
    capped(outboxIds.length);
    const revived = await this.audited(
      async (manager) => this.dead.revive(manager, outboxIds),
      (ids) => ({ action: 'revive', target: `${ids.length} of ${outboxIds.length} rows`, detail: { ids } }),
      deed,
    );
    if (revived.length > 0) this.wakeUp.wake();
    return revived;
  }

  /** A person's word on a group of dead rows. `open` takes it back. */
  async setIssue(fingerprint: string, state: DeadGroup['state'], deed: Deed): Promise<void> {
    await this.audited(
      async (manager) => this.dead.setState(manager, fingerprint, state, deed.by, deed.reason),
      () => ({ action: `issue ${state}`, target: fingerprint }),
      deed,
    );
  }

  /** Verifies a batch of a source's kept rejections again; see `SecondLook`. */
  async verifyAgain(source: string, after: string | undefined, deed: Deed): Promise<SecondLookReport> {
    const report = await this.secondLook.run(source, after);
    await this.note({ action: 'verify again', target: source, detail: { ...report } }, deed);
    return report;
  }

  /** Notes that a person was shown stored content. Before it is shown: what cannot be noted is not shown. */
  async revealed(what: string, how: 'shown' | 'downloaded', deed: Deed): Promise<void> {
    await this.note({ action: `content ${how}`, target: what }, deed);
  }

  /** What a replay would run, and what stays done. Changes nothing. */
  async previewReplay(selection: Selection): Promise<unknown> {
    cappedSelection(selection);
    return offered(this.replays, 'replay').preview(selection);
  }

  /** @param refire names of effects that are to happen once more although they are done */
  async replay(selection: Selection, refire: string[], deed: Deed): Promise<unknown> {
    cappedSelection(selection);
    const result = await offered(this.replays, 'replay').run(selection, { refire, ...deed });
    await this.note({ action: 'replay', target: targetOf(selection), detail: { refire, result } }, deed);
    return result;
  }

  /** Sends stored events on to another URL. */
  async forward(selection: Selection, url: string, deed: Deed): Promise<unknown> {
    cappedSelection(selection);
    const result = await offered(this.replays, 'forward').forward(selection, url);
    await this.note({ action: 'forward', target: targetOf(selection), detail: { url } }, deed);
    return result;
  }

  /** Decides about an effect in doubt. */
  async decide(outboxId: string, decision: 'retry' | 'done' | 'dead', deed: Deed): Promise<unknown> {
    const result = await offered(this.parked, 'decide').decide(outboxId, decision, deed);
    await this.note({ action: `parked ${decision}`, target: outboxId }, deed);
    return result;
  }

  /** Removes an event's content; the tombstone stays, so that a redelivery is a duplicate. */
  async erase(event: EventKey, deed: Deed): Promise<unknown> {
    const result = await offered(this.erasure, 'erase').erase(event, deed);
    await this.note({ action: 'erase', target: targetOf({ events: [event] }) }, deed);
    return result;
  }

  async pause(kind: PauseKind, name: string, deed: Deed): Promise<void> {
    await offered(this.pauses, 'pause').pause(kind, name, deed);
    await this.note({ action: 'pause', target: `${kind} ${name}` }, deed);
  }

  async resume(kind: PauseKind, name: string, deed: Deed): Promise<void> {
    await offered(this.pauses, 'pause').resume(kind, name, deed);
    await this.note({ action: 'resume', target: `${kind} ${name}` }, deed);
  }

  /** What is paused; empty where nothing can be. */
  async paused(): Promise<readonly { readonly kind: PauseKind; readonly name: string }[]> {
    return (await this.pauses?.list()) ?? [];
  }

  private async audited<T>(
    act: (manager: EntityManager) => Promise<T>,
    describe: (result: T) => Omit<AuditEntry, 'actor' | 'reason'>,
    deed: Deed,
  ): Promise<T> {
    return this.dataSource.transaction('READ COMMITTED', async (manager) => {
      const result = await act(manager);
      await this.audit.write(manager, { ...describe(result), actor: deed.by, reason: deed.reason });
      return result;
    });
  }

  private async note(entry: Omit<AuditEntry, 'actor' | 'reason'>, deed: Deed): Promise<void> {
    await this.audit.write(this.dataSource.manager, { ...entry, actor: deed.by, reason: deed.reason });
  }
}

function offered<T>(port: T | undefined, action: string): T {
  if (port === undefined) throw new InputRefused(`this application does not offer '${action}'`);
  return port;
}

function capped(count: number): void {
  if (count < 1 || count > MAX_AT_ONCE)
    throw new InputRefused(`expected 1 to ${MAX_AT_ONCE} at once, received ${count}`);
}

function cappedSelection(selection: Selection): void {
  capped('events' in selection ? selection.events.length : selection.limit);
}

function targetOf(selection: Selection): string {
  if (!('events' in selection)) return JSON.stringify(selection);
  const [first] = selection.events;
  const name =
    first === undefined ? '' : `${first.source} ${first.tenant} ${first.eventId}`.replace('  ', ' ');
  return selection.events.length === 1 ? name : `${selection.events.length} events, ${name} first`;
}
