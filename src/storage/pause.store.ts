import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable } from '../core/event.js';
import { DESTINATION_STATES, type DestinationState } from './destination.store.js';
import { query } from './schema/own-schema.js';

/** A pause stops all of a source, or one handler, or one effect. */
export type PauseKind = 'source' | 'handler' | 'effect';

/** A pause, with the person and the reason. */
export interface Pause {
  readonly kind: PauseKind;
  /** A source's name, or the full name of a handler or an effect. */
  readonly name: string;
  readonly pausedAt: Date;
  readonly pausedBy: string;
  readonly reason: string;
}

/** Names that no relay leases. Receiving goes on: events are claimed and their work waits. */
@Injectable()
export class PauseStore {
  /** False when it was paused already. */
  async pause(
    manager: EntityManager,
    kind: PauseKind,
    name: string,
    by: string,
    reason: string,
  ): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `INSERT INTO webhook_pause (kind, name, paused_by, reason) VALUES ($1, $2, $3, $4)
           ON CONFLICT DO NOTHING RETURNING name`,
      [kind, storable(name, 255), storable(by, 255), storable(reason, 1_000)],
    );
    return rows.length === 1;
  }

  /** Under each of these names. False when it was not paused under any. */
  async resume(manager: EntityManager, kind: PauseKind, names: readonly string[]): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `WITH resumed AS (DELETE FROM webhook_pause WHERE kind = $1 AND name = ANY($2::text[]) RETURNING name) SELECT name FROM resumed`,
      [kind, names.map((name) => storable(name, 255))],
    );
    return rows.length > 0;
  }

  /** Names that are not leased, and destinations with a state. Each relay reads them once a second. */
  async held(manager: EntityManager): Promise<{
    readonly pauses: readonly Pick<Pause, 'kind' | 'name'>[];
    readonly destinations: readonly DestinationState[];
  }> {
    const rows: ((DestinationState & { kind: 'destination' }) | Pick<Pause, 'kind' | 'name'>)[] = await query(
      manager,
      `SELECT kind, name, NULL::boolean AS open, NULL::float8 AS "waitMs" FROM webhook_pause
        UNION ALL ${DESTINATION_STATES}`,
    );
    const pauses: Pick<Pause, 'kind' | 'name'>[] = [];
    const destinations: DestinationState[] = [];
    for (const row of rows) {
      if (row.kind === 'destination') destinations.push(row);
      else pauses.push(row);
    }
    return { pauses, destinations };
  }

  async list(manager: EntityManager): Promise<Pause[]> {
    const rows: { kind: PauseKind; name: string; paused_at: Date; paused_by: string; reason: string }[] =
      await query(
        manager,
        `SELECT kind, name, paused_at, paused_by, reason FROM webhook_pause ORDER BY kind, name`,
      );
    return rows.map((row) => ({
      kind: row.kind,
      name: row.name,
      pausedAt: row.paused_at,
      pausedBy: row.paused_by,
      reason: row.reason,
    }));
  }
}
