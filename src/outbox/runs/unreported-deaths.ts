import { Injectable } from '@nestjs/common';
import { Alerts } from '../../core/telemetry/alerts.js';
import { isServerUnusable, sqlStateOf } from '../../core/classify.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { FailureSettler } from './failure.settler.js';
import { LoneStatements } from './lone-statements.js';

/** A server that is cut off may carry out a statement for so long after it was given up. */
const LATE_MS = 30_000;
/** The most alerts that are remembered, the latest ones. */
const REMEMBERED = 1_000;

/** Statements without an answer, on the monotonic clock. */
interface Doubt {
  /** When the first of them was sent. */
  readonly since: number;
  /** Until when to search for rows that they changed. */
  readonly until: number;
}

/**
 * Raises the alerts of rows that a lease or a claim made dead or parked, when its answer was lost. `DeskKeeper` calls it in each round.
 * This process raises an alert for a row once. Another process that also lost an answer may raise it too.
 */
@Injectable()
export class UnreportedDeaths {
  private open: Doubt | undefined;
  private readonly reported = new Set<string>();
  private readonly settled = new Set<string>();

  constructor(
    private readonly registry: HandlerRegistry,
    private readonly store: OutboxStore,
    private readonly statements: LoneStatements,
    private readonly failures: FailureSettler,
    alerts: Alerts,
  ) {
    alerts.listen((alert) => {
      if (alert.kind === 'dead-letter' || alert.kind === 'parked')
        remember(this.reported, `${alert.outboxId} ${alert.attempt}`);
    });
  }

  /** Does `work`, a statement or a transaction, and remembers when its answer is lost. */
  async track<T>(work: () => Promise<T>): Promise<T> {
    const since = performance.now();
    try {
      return await work();
    } catch (error) {
      // An error of the server's about the statement is an answer.
      if (sqlStateOf(error) === undefined || isServerUnusable(error)) this.recordDoubt(since);
      throw error;
    }
  }

  /** The row has been made dead in a transaction that is still to commit. */
  recordDead(id: string): void {
    remember(this.settled, id);
  }

  /** Something that was sent at `since` or later may have been done. */
  recordDoubt(since: number): void {
    this.open = { since: Math.min(since, this.open?.since ?? since), until: performance.now() + LATE_MS };
  }

  /** Raises the alerts of rows that were found since. */
  async report(): Promise<void> {
    const { open } = this;
    if (open === undefined) return;
    const now = performance.now();
    const names = this.registry.names();
    const rows = await this.statements.send((manager) =>
      this.store.exhaustedSince(manager, names, now - open.since, [...this.settled]),
    );
    this.failures.reportExhausted(rows.filter(({ id, attempt }) => !this.reported.has(`${id} ${attempt}`)));
    if (this.open === open && now >= open.until) this.open = undefined;
  }
}

function remember(among: Set<string>, one: string): void {
  among.add(one);
  if (among.size > REMEMBERED) among.delete(among.values().next().value!);
}
