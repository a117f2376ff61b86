import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { logLine } from '../../core/log/log.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { firstName, HandlerRegistry } from '../../handlers/handler.registry.js';
import { inTransaction, onConnection } from '../../storage/postgres/connection.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { storeErrorText } from '../../storage/postgres/store-error.js';
import { WakeUp, type WokenNames } from '../wake/wake-up.js';
import { TurnStore, type OrderKey } from '../../storage/turn.store.js';

const MAX_POLLS = 10;
/** How often names without an order key are polled too. They may have had a key before, and rows of that time may wait for a turn. */
const FORMER_MS = 60_000;

/** Age at which a backlog is searched for tenants that wait behind others, and the pause between two searches. */
const BACKLOG_MS = 1_000;
/** When the connection of such a search is given up: a half-open one never answers. */
const ADVANCE_MS = 30_000;

/**
 * Gives turns to order keys whose rows wait, before a lease. It costs nothing where no handler and no effect has a key. It also brings
 * tenants forward that wait behind the backlog of others, since the lease itself knows no tenants.
 */
@Injectable()
export class Turns {
  private readonly logger = new InboxLogger();
  /** When each name's backlog was first seen, or last searched. */
  private readonly backlogs = new Map<string, number>();
  private advancing: Promise<void> | undefined;
  private cursor: OrderKey | undefined;
  private formerAt = -Infinity;
  /** Rows with a key may have been committed since the last call of `give`. */
  private woken = true;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly registry: HandlerRegistry,
    private readonly store: TurnStore,
    private readonly wakeUp: WakeUp,
  ) {}

  /** Rows of these names have been committed. */
  wake(names: WokenNames): void {
    this.woken ||=
      names === undefined ||
      names.some((name) => (this.registry.handler(name) ?? this.registry.effect(name))?.ordered);
  }

  /**
   * A lease has found rows of a name.
   * @param isFull there may be more of them
   */
  noteBacklog(rows: readonly LeasedRow[], names: readonly string[], isFull: boolean): void {
    if (!isFull) {
      for (const name of names) this.backlogs.delete(name);
      return;
    }
    const now = performance.now();
    for (const { name, event } of rows) {
      if (!event?.tenant) continue;
      const since = this.backlogs.get(name) ?? now;
      this.backlogs.set(name, since);
      if (now - since < BACKLOG_MS || this.advancing !== undefined) continue;
      this.backlogs.set(name, now);
      this.advancing = this.advance(name).finally(() => (this.advancing = undefined));
    }
  }

  /** Not awaited by the lease. One that fails is made again a second later. */
  private async advance(name: string): Promise<void> {
    try {
      const moved = await onConnection(
        this.dataSource,
        (manager) => this.store.advanceTenants(manager, name),
        ADVANCE_MS,
      );
      if (moved > 0) this.wakeUp.wakeOwn([name]);
    } catch (error) {
      this.logger.warn(
        logLine(`tenants behind a backlog could not be brought forward: ${storeErrorText(error)}`, { name }),
      );
    }
  }

  /**
   * Gives turns, if rows with a key may have been committed. Otherwise it sends no statement.
   * @param endAfterMs when a connection that does not answer is given up
   * @returns whether rows of any name became due by it
   */
  async give(endAfterMs: number): Promise<boolean> {
    if (!this.woken) return false;
    this.woken = false;
    const all = new Set([...this.registry.handlers().values(), ...this.registry.effects().values()]);
    const former = performance.now() - this.formerAt >= FORMER_MS;
    const works = [...all].filter((work) => work.ordered || former);
    if (works.length === 0) return false;
    const names = works.map(firstName);
    const blocked = works.filter((work) => work.onDead === 'block').map(firstName);
    // A poll also reads keys that have their turn. After a full poll of those, further keys may be without one.
    for (let poll = 0; poll < MAX_POLLS; poll += 1) {
      const result = await inTransaction(
        this.dataSource.manager,
        1_000,
        (manager) => this.store.give(manager, names, blocked, this.cursor),
        endAfterMs,
      ).catch((error: unknown) => {
        this.woken = true;
        throw error;
      });
      if (result === undefined) {
        // Another relay gives turns now. It may have read the table before the commit that this call is for.
        this.woken = true;
        return false;
      }
      if (former) this.formerAt = performance.now();
      this.cursor = result.next;
      this.woken ||= result.next !== undefined;
      if (result.given > 0) return true;
      if (result.next === undefined) return false;
    }
    return false;
  }
}
