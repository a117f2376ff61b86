import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { retryWindowMs } from '../core/options/resolve-source.js';
import { checkInput, OUTBOX_ID } from '../core/options/schema.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import type { OutboxState } from '../core/states.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { Audit, targetOfRows } from '../storage/desk/audit.js';
import { AuditStore } from '../storage/desk/audit.store.js';
import { DecisionStore, type DecidedRow } from '../storage/desk/decision.store.js';
import type { Decider } from '../core/decider.js';

/** A row that is not dead. */
export interface NotDead {
  readonly outboxId: string;
  /** The state of the row instead, and the remedy. */
  readonly why: string;
}

/** The plan of a revival, by name of handler or effect. */
export interface RevivalPlan {
  readonly run: Readonly<Record<string, number>>;
  /** Effects that the rows' handlers enqueued and that are done. */
  readonly staysDone: Readonly<Record<string, number>>;
  readonly notDead: number;
}
/** How many of some rows are in each state. */
export interface RowProgress {
  readonly total: number;
  readonly states: Readonly<Partial<Record<OutboxState, number>>>;
  /** Fingerprints of the errors of those that are dead, as `DeadGroup` has them. */
  readonly fingerprints: readonly string[];
  readonly error: string | null;
}

const NO_ROW = 'there is no such row: retention may have deleted it';
const WHY_NOT: Readonly<Record<Exclude<OutboxState, 'dead'>, string>> = {
  pending: 'it is pending: its next attempt comes without a revival',
  done: 'it is done: replay its event to run it again',
  superseded: 'it is superseded by a newer event: replay its event to run it again',
  parked: 'it is parked: decide whether its effect happened',
  erased: 'its content was erased',
  cancelled: 'it was cancelled: enqueue it again, under another key',
  handed: 'it is handed to an engine: its consumer reports how it ends',
};

const WHY_DEAD = 'it is dead: revive it instead';

/** Undefined for a row that is dead. */
function whyNot(state: OutboxState | undefined): string | undefined {
  if (state === undefined) return NO_ROW;
  return state === 'dead' ? undefined : WHY_NOT[state];
}

/** Gives dead rows new attempts, once the cause is gone, or gives them up. */
@Injectable()
export class Revivals {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly store: DecisionStore,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
    private readonly auditRows: AuditStore,
  ) {}

  /**
   * Under the ids and keys they had; an effect whose key the other side may have forgotten is parked instead of run. The row of a
   * route with `@UseWebhook` waits until the provider sends its event again, as long as the provider may.
   * @returns the ids of the rows that were dead
   * @throws InputRefused for what is no outbox id, and without `by` or `reason`
   */
  async revive(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    return this.audit.record({ action: 'revive', ...targetOfRows(outboxIds) }, decider, async () => {
      const rows = await this.store.revive(this.dataSource.manager, outboxIds, this.routes(), decider);
      const revived = this.logDecided('revived', rows, decider);
      const others = await this.logOthers('not revived', outboxIds, revived, decider);
      if (revived.length > 0) this.wakeUp.wake();
      return [revived, { revived: revived.length, ...others }];
    });
  }

  /** The states of rows that are not dead, so that they can be neither revived nor given up. Dead rows are left out. @internal */
  async whyNotDead(outboxIds: readonly string[]): Promise<NotDead[]> {
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    return (await this.notDead(outboxIds)).map(({ outboxId, why }) => ({ outboxId, why }));
  }

  /** The same of any row, for an action that has changed nothing: its state, and the person who acted on it last. @internal */
  async whyUnchanged(outboxId: string): Promise<string> {
    checkInput(OUTBOX_ID, outboxId, 'outboxId');
    const [found] = await this.notDead([outboxId], WHY_DEAD);
    return found!.why;
  }

  private async notDead(
    outboxIds: readonly string[],
    whyDead?: string,
  ): Promise<(NotDead & { readonly row: Partial<DecidedRow> })[]> {
    const { manager } = this.dataSource;
    const ids = outboxIds.map((id) => id.toLowerCase());
    const found = await this.store.states(manager, ids);
    const deeds = await this.auditRows.lastDeeds(manager, ids);
    return outboxIds.flatMap((outboxId, at) => {
      const { state, ...row } = found.get(ids[at]!) ?? {};
      if (state === 'dead' && whyDead === undefined) return [];
      const deed = deeds.get(ids[at]!);
      const first = deed === undefined ? '' : ` (${deed.actor}: ${deed.action}, ${deed.at.toISOString()})`;
      return [{ outboxId, why: `${whyNot(state) ?? whyDead}${first}`, row }];
    });
  }

  /** The work that a revival would run, and the effects of these rows that stay done. Changes nothing. */
  async preview(outboxIds: readonly string[]): Promise<RevivalPlan> {
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    const found = await this.store.previewRevive(this.dataSource.manager, outboxIds);
    const names = (runs: boolean) =>
      Object.fromEntries(found.filter((one) => one.runs === runs).map(({ name, rows }) => [name, rows]));
    const dead = found.filter(({ runs }) => runs).reduce((sum, { rows }) => sum + rows, 0);
    return { run: names(true), staysDone: names(false), notDead: new Set(outboxIds).size - dead };
  }

  /** How far rows have come that were revived or replayed. @internal */
  async progress(outboxIds: readonly string[]): Promise<RowProgress> {
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    const found = await this.store.progress(this.dataSource.manager, outboxIds);
    return {
      total: found.reduce((sum, { rows }) => sum + rows, 0),
      states: Object.fromEntries(found.map(({ state, rows }) => [state, rows])),
      fingerprints: found.flatMap(({ fingerprints }) => fingerprints),
      error: found.find(({ state }) => state === 'dead')?.error ?? null,
    };
  }

  /**
   * Lets dead rows be, for good: under `onDead: 'block'` the next of their key runs, and no redelivery gives them new attempts. They
   * stay dead, with their error, and a person may still revive or replay them.
   * @returns the ids of the rows that were dead and not given up before
   * @throws InputRefused for what is no outbox id, and without `by` or `reason`
   */
  async giveUp(outboxIds: readonly string[], decider: Decider): Promise<string[]> {
    checkInput(z.array(OUTBOX_ID), outboxIds, 'outboxIds');
    return this.audit.record({ action: 'give up', ...targetOfRows(outboxIds) }, decider, async () => {
      const rows = await this.store.giveUp(this.dataSource.manager, outboxIds, decider);
      const givenUp = this.logDecided('given up', rows, decider);
      const others = await this.logOthers('not given up', outboxIds, givenUp, decider);
      if (givenUp.length > 0) this.wakeUp.wake();
      return [givenUp, { givenUp: givenUp.length, ...others }];
    });
  }

  /** A line for each row; returns their ids. */
  private logDecided(what: string, rows: readonly DecidedRow[], { by, reason }: Decider): string[] {
    for (const row of rows) this.logger.log(logLine(what, { ...row, by, reason }));
    return rows.map(({ outbox }) => outbox);
  }

  /** A row that could not be helped gets its reason in the log and in the audit, where the person reads it. */
  private async logOthers(
    what: string,
    asked: readonly string[],
    helped: readonly string[],
    { by }: Decider,
  ): Promise<{ readonly others?: readonly NotDead[] }> {
    const others = asked.filter((id) => !helped.includes(id.toLowerCase()));
    if (others.length === 0) return {};
    const found = await this.notDead(others);
    for (const { outboxId: outbox, why, row } of found)
      this.logger.warn(logLine(`${what}: ${why}`, { outbox, ...row, by }));
    return { others: found.map(({ outboxId, why }) => ({ outboxId, why })) };
  }

  /** Only a delivery can run them: a due one would be dead at the relay's next poll. */
  private routes() {
    return [...this.registry.routes().values()].map(({ name, source }) => {
      return { name, ms: retryWindowMs(this.options.sources.get(source)!.provider) };
    });
  }
}
