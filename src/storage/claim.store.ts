import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { keyText, type EventKey } from '../core/event.js';
import { dataSourceOf } from './postgres/connection.js';
import type { Statements } from './postgres/one-message.js';
import { lockName, query } from './schema/own-schema.js';
import { millis, storedEvent, type ClaimRow, type StoredEvent } from './stored-event.js';
import { claiming, keysOf, type NewClaim, type NewHandlerRow } from './new-claim.js';

export type { NewClaim, NewHandlerRow };
import { ADD_ROW, ADD_ROW_TO_SKIPPED, CONFLICTS, DUPLICATES, LOAD, PROGRESS, RECENT } from './claim.sql.js';

export interface ClaimResult {
  /** Whether this call made the event ours. The primary key decides, and no read beforehand. */
  readonly won: boolean;
  /** The same bytes are known under another id, and no signature covers the ids: that has been recorded. */
  readonly suspectedReplay: boolean;
  /** When the claim was won: the arrival, by the database's clock. */
  readonly receivedAt?: Date;
}

/** A delivery of an event that is claimed already, and how its source treats it. */
export interface Duplicate extends EventKey {
  readonly bodySha256: Buffer;
  readonly revive: boolean;
  /** `bytes`: others than the first contradict it. `content`: the caller compares, and needs the first where they differ. */
  readonly compare?: 'bytes' | 'content';
}

export interface DuplicateResult {
  /** Whether dead handler rows were given new attempts. */
  readonly revived: boolean;
  /** The bytes differ from the first delivery's. */
  readonly differs: boolean;
  /** The first delivery's bytes, where the caller must compare the content. */
  readonly first?: Buffer;
}

@Injectable()
export class ClaimStore {
  /**
   * Claims events and inserts the rows owed for those that were won, in one statement.
   * `claims` must be sorted by key and unique: two batches in opposite orders would deadlock.
   */
  async claim(statements: Statements, claims: readonly NewClaim[]): Promise<ClaimResult[]> {
    const won: WonRow[] = await query(statements, ...claiming(claims));
    const byId = new Map(won.map((row) => [row.id, row]));
    return claims.map(({ id }) => {
      const row = byId.get(id);
      return {
        won: row?.received_ms != null,
        suspectedReplay: row?.suspected ?? false,
        receivedAt: row?.received_ms == null ? undefined : new Date(row.received_ms),
      };
    });
  }

  /**
   * Records deliveries of claimed events: gives dead handler rows new attempts (once a row, when `revive`), and finds whether the bytes
   * differ from the first. Erased events are left alone.
   */
  async recordDuplicates(
    statements: Statements,
    duplicates: readonly Duplicate[],
  ): Promise<DuplicateResult[]> {
    const known: (DuplicateResult & { nth: number; first: Buffer | null })[] = await query(
      statements,
      DUPLICATES,
      [
        ...keysOf(duplicates),
        duplicates.map((d) => d.bodySha256),
        duplicates.map((d) => d.revive),
        duplicates.map((d) => d.compare ?? null),
      ],
    );
    const byPlace = new Map(known.map((row) => [row.nth, row]));
    return duplicates.map((_, index) => {
      const row = byPlace.get(index + 1);
      return row === undefined
        ? { revived: false, differs: false }
        : { revived: row.revived, differs: row.differs, first: row.first ?? undefined };
    });
  }

  /** Records deliveries that contradict the first, with the bytes that they brought. */
  async recordConflicts(
    statements: Statements,
    conflicts: readonly (EventKey & Pick<NewClaim, 'headers' | 'body'> & { readonly bodySha256: Buffer })[],
  ): Promise<void> {
    await query(statements, CONFLICTS, [
      ...keysOf(conflicts),
      conflicts.map((c) => c.bodySha256),
      conflicts.map((c) => JSON.stringify(c.headers)),
      conflicts.map((c) => c.body),
    ]);
  }

  /**
   * The receipt of an event.
   * @param lock keep it from being erased or pruned until the transaction ends
   */
  async load(manager: EntityManager, key: EventKey, lock = false): Promise<StoredEvent | undefined> {
    const sql = lock ? `${LOAD} FOR UPDATE` : LOAD;
    const rows: ClaimRow[] = await query(manager, sql, [key.source, key.tenant, key.eventId]);
    return rows[0] && storedEvent(rows[0]);
  }

  /** Our id of the event and its arrival, if it is claimed. */
  async find(statements: Statements, key: EventKey): Promise<{ id: string; receivedAt: Date } | undefined> {
    const rows: { id: string; received_ms: number }[] = await query(
      statements,
      `SELECT id, ${millis('received_at')} AS received_ms FROM webhook_claim WHERE source = $1 AND tenant = $2 AND event_id = $3`,
      [key.source, key.tenant, key.eventId],
    );
    return rows[0] && { id: rows[0].id, receivedAt: new Date(rows[0].received_ms) };
  }

  /** How far a committed claim is: `settled` when no handler row of it is pending. */
  async findProgress(manager: EntityManager, key: EventKey): Promise<'unknown' | 'pending' | 'settled'> {
    const rows: { pending: boolean }[] = await query(manager, PROGRESS, [
      key.source,
      key.tenant,
      key.eventId,
    ]);
    if (rows[0] === undefined) return 'unknown';
    return rows[0].pending ? 'pending' : 'settled';
  }

  /** Whether this transaction is the only one that handles the event inline; released at its end. */
  async lockInline(manager: EntityManager, key: EventKey): Promise<boolean> {
    const [row]: { locked: boolean }[] = await query(
      manager,
      `SELECT pg_try_advisory_xact_lock(hashtextextended($1, 0)) AS locked`,
      [lockName(dataSourceOf(manager), keyText(key))],
    );
    return row!.locked;
  }

  /**
   * Adds a handler row to a claim that this version's handlers match and an older one's did not.
   * @param onlyToSkipped not where anything is owed already
   */
  async addRow(
    manager: EntityManager,
    claimId: string,
    { id, name, orderKey }: NewHandlerRow,
    onlyToSkipped = false,
  ): Promise<boolean> {
    const values = [claimId, id, name, orderKey?.key ?? null, orderKey?.name ?? null];
    const added: unknown[] = await query(manager, onlyToSkipped ? ADD_ROW_TO_SKIPPED : ADD_ROW, values);
    return added.length > 0;
  }

  /** Claims of a source received in the last `windowMs` milliseconds, oldest first, from after `cursor`, with their handler rows' names. */
  async listRecent(
    manager: EntityManager,
    source: string,
    windowMs: number,
    limit: number,
    cursor: ClaimCursor = FIRST_CLAIM,
  ): Promise<RecentClaim[]> {
    return query(manager, RECENT, [source, windowMs, limit, cursor.cursor_at, cursor.id]);
  }
}

interface WonRow {
  readonly id: string;
  readonly suspected: boolean;
  /** Null where the event was not won. */
  readonly received_ms: number | null;
}

/** A place in the order of arrival. The time is text: a Date would cut its microseconds off, and rows would be met twice or never. */
export interface ClaimCursor {
  readonly cursor_at: string;
  readonly id: string;
}
export const FIRST_CLAIM: ClaimCursor = {
  cursor_at: '-infinity',
  id: '00000000-0000-0000-0000-000000000000',
};

export interface RecentClaim extends ClaimCursor {
  readonly source: string;
  readonly tenant: string;
  readonly event_id: string;
  readonly event_type: string;
  readonly owed: number;
  readonly names: string[];
}
