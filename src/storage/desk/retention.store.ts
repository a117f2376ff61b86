import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import {
  DELETE_AUDIT,
  DELETE_CLAIMS,
  DELETE_CONFLICTS,
  DELETE_DUPLICATES,
  DELETE_EFFECTS,
  DELETE_ISSUES,
  DELETE_LEASES,
  DELETE_SECRET_USES,
  DELETE_WATERMARKS,
  EMPTY_BODIES,
  EMPTY_EFFECTS,
  INDEXES_ONLY,
  LOCK_OLD_BODIES,
  LOCK_OLD_CLAIMS,
  STORED_SOURCES,
} from './retention.sql.js';

interface Key {
  readonly source: string;
  readonly tenant: string;
  readonly event_id: string;
}

const FIRST_KEY: Key = { source: '', tenant: '', event_id: '' };

/** A place in the order of marks. */
export interface MarkCursor {
  readonly handler: string;
  readonly source: string;
  readonly tenant: string;
  readonly key: Buffer;
}

/** Of old claims, in the order in which they came. */
export interface ClaimsPage {
  /** Deleted or emptied. */
  readonly count: number;
  /** Rows that were locked and read. */
  readonly looked: number;
  /** Where they end: the cursor for the next page. */
  readonly last: string;
}

const FIRST_MARK: MarkCursor = { handler: '', source: '', tenant: '', key: Buffer.of() };

/**
 * Deletes and empties data that is older than its window, at most `limit` rows at once. It never touches unsettled or locked rows. Each
 * call must be a transaction of its own.
 */
@Injectable()
export class RetentionStore {
  /** For the rest of the transaction. */
  async useIndexes(manager: EntityManager): Promise<void> {
    await query(manager, INDEXES_ONLY);
  }

  /** Deletes claims of a source received more than `ageMs` milliseconds ago, with their rows, from `cursor` on. */
  async deleteClaims(
    manager: EntityManager,
    source: string,
    ageMs: number,
    limit: number,
    cursor?: string,
  ): Promise<ClaimsPage> {
    return pageOf(manager, [LOCK_OLD_CLAIMS, DELETE_CLAIMS], source, ageMs, limit, cursor);
  }

  /** Empties bodies and headers of a source's claims received more than `ageMs` milliseconds ago, from `cursor` on. */
  async emptyBodies(
    manager: EntityManager,
    source: string,
    ageMs: number,
    limit: number,
    cursor?: string,
  ): Promise<ClaimsPage> {
    return pageOf(manager, [LOCK_OLD_BODIES, EMPTY_BODIES], source, ageMs, limit, cursor);
  }

  /** Empties payloads and results of a source's effects. It reads `limit` payloads of any source from after `cursor`. */
  async emptyEffects(
    manager: EntityManager,
    source: string,
    ageMs: number,
    limit: number,
    cursor = '00000000-0000-0000-0000-000000000000',
  ): Promise<{ count: number; looked: number; last: string | null }> {
    const [row]: { count: number; looked: number; last: string | null }[] = await query(
      manager,
      EMPTY_EFFECTS,
      [source, Math.round(ageMs), limit, cursor],
    );
    return row!;
  }

  /** Deletes effects that belong to no event and were settled more than `ageMs` milliseconds ago. */
  async deleteEffects(manager: EntityManager, ageMs: number, limit: number): Promise<number> {
    return counted(manager, DELETE_EFFECTS, [ageMs, limit]);
  }

  /**
   * Deletes marks older than so many milliseconds, by source. It reads `limit` marks from after `cursor`.
   * @param others those of all other sources, but for the `kept`
   */
  async deleteWatermarks(
    manager: EntityManager,
    ages: ReadonlyMap<string, number>,
    others: { readonly ageMs: number; readonly kept: readonly string[] },
    limit: number,
    cursor = FIRST_MARK,
  ): Promise<{ count: number; looked: number; last: MarkCursor | undefined }> {
    const { handler, source, tenant, key } = cursor;
    const rows: {
      count: number;
      looked: number;
      place: Omit<MarkCursor, 'key'> | null;
      key_sha256: Buffer;
    }[] = await query(manager, DELETE_WATERMARKS, [
      [...ages.keys()],
      [...ages.values()],
      limit,
      handler,
      source,
      tenant,
      key,
      others.ageMs,
      others.kept,
    ]);
    const { count, looked, place, key_sha256 } = rows[0]!;
    return { count, looked, last: place === null ? undefined : { ...place, key: key_sha256 } };
  }

  /**
   * The sources that have claims.
   * @param quietMs only those that have brought nothing for so long. @default all
   */
  async storedSources(manager: EntityManager, quietMs?: number): Promise<string[]> {
    const rows: { source: string }[] = await query(manager, STORED_SOURCES, [quietMs]);
    return rows.map(({ source }) => source);
  }

  /** Deletes the audit's oldest rows. */
  async deleteAudit(manager: EntityManager, ageMs: number, limit: number): Promise<number> {
    return counted(manager, DELETE_AUDIT, [ageMs, limit]);
  }

  /** Deletes acts of people on dead rows, uses of secrets, and leases that were never given back. */
  async deleteNotes(manager: EntityManager, ageMs: number): Promise<number> {
    const issues = await counted(manager, DELETE_ISSUES, [ageMs]);
    const uses = await counted(manager, DELETE_SECRET_USES, [ageMs]);
    return issues + uses + (await counted(manager, DELETE_LEASES, []));
  }

  /** Deletes counts of duplicates whose claim has gone. It reads `limit` counts from after `cursor`. */
  async deleteDuplicates(
    manager: EntityManager,
    ageMs: number,
    limit: number,
    cursor: Key = FIRST_KEY,
  ): Promise<{ count: number; looked: number; last: Key | null }> {
    const { source, tenant, event_id } = cursor;
    const rows: { count: number; looked: number; last: Key | null }[] = await query(
      manager,
      DELETE_DUPLICATES,
      [ageMs, limit, source, tenant, event_id],
    );
    return rows[0]!;
  }

  /** Deletes conflicts of events that were never claimed, or whose claim has gone. */
  async deleteConflicts(manager: EntityManager, ageMs: number, limit: number): Promise<number> {
    return counted(manager, DELETE_CONFLICTS, [ageMs, limit]);
  }
}

/** Locks claims, then acts on them in a second statement: that one sees all commits from before the lock was given. */
async function pageOf(
  manager: EntityManager,
  [lock, act]: readonly [string, string],
  source: string,
  ageMs: number,
  limit: number,
  cursor = '-infinity',
): Promise<ClaimsPage> {
  const keys = await query<(Key & { id: string; at: string })[]>(manager, lock, [
    source,
    ageMs,
    limit,
    cursor,
  ]);
  const last = keys.at(-1)?.at ?? cursor;
  if (keys.length === 0) return { count: 0, looked: 0, last };
  const column = (of: 'source' | 'tenant' | 'event_id' | 'id') => keys.map((key) => key[of]);
  const values = [column('source'), column('tenant'), column('event_id'), ageMs, column('id')];
  return { count: await counted(manager, act, values), looked: keys.length, last };
}

async function counted(manager: EntityManager, sql: string, parameters: unknown[]): Promise<number> {
  const [row]: { count: number }[] = await query(manager, sql, parameters);
  return row!.count;
}
