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

const MAX_LOOKS = 10;
/** How often a handler or an effect that has no key is looked at: it may have had one, and its rows wait for a turn. */
const FORMER_MS = 60_000;

/** A backlog that is so old is looked through for tenants that wait behind others, and so often. */
const BACKLOG_MS = 1_000;
/** When the connection of such a look is given up: a half-open one never answers. */
const ADVANCE_MS = 30_000;

/**
 * Gives turns to waiting keys before a lease looks; costs next to nothing where no handler and no effect has a key. And to tenants that
 * wait behind the backlog of others: the lease itself knows no tenants.
 */
@Injectable()
export class Turns {
  private readonly logger = new InboxLogger();
  /** When each name's backlog was first met, or last looked through. */
  private readonly backlogs = new Map<string, number>();
  private advancing: Promise<void> | undefined;
  private cursor: OrderKey | undefined;
  private formerAt = -Infinity;
  /** Rows with a key may have been committed since the last look. */
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
  leased(rows: readonly LeasedRow[], names: readonly string[], isFull: boolean): void {
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
   * Looks when rows with a key may have come; costs nothing otherwise.
   * @param endAfterMs when a connection that does not answer is given up
   * @returns whether rows have become due by it, of whatever name
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
    // Keys whose turn somebody has are looked at too: past a full look at those there may be keys that nobody serves.
    for (let look = 0; look < MAX_LOOKS; look += 1) {
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
        // Another relay is at it, and may have looked before the commit that this look is for.
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
