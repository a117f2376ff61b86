import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable, storableJson } from '../core/event.js';
import { query } from './own.schema.js';

/** What a person did to what, and why. */
export interface AuditEntry {
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  readonly reason: string;
  readonly detail?: Readonly<Record<string, unknown>>;
}
export interface AuditRow extends AuditEntry {
  readonly id: string;
  readonly at: Date;
  /** What came of it; null when the process ended in between, or is at it still. */
  readonly outcome: Readonly<Record<string, unknown>> | null;
}

@Injectable()
export class AuditStore {
  /** Writes the row before the deed. Returns its id. */
  async begin(manager: EntityManager, entry: AuditEntry): Promise<string> {
    const [row]: { id: string }[] = await query(
      manager,
      `INSERT INTO webhook_audit (actor, action, target, reason, detail) VALUES ($1, $2, $3, $4, $5) RETURNING id::text`,
      [
        storable(entry.actor, 255) || 'unknown',
        entry.action,
        storable(entry.target, 600),
        storable(entry.reason, 1_000),
        json(entry.detail ?? {}),
      ],
    );
    return row!.id;
  }

  async end(manager: EntityManager, id: string, outcome: Readonly<Record<string, unknown>>): Promise<void> {
    await query(manager, `UPDATE webhook_audit SET outcome = $2 WHERE id = $1`, [id, json(outcome)]);
  }

  /** Newest first, from before the row `before`. */
  async list(manager: EntityManager, limit: number, before?: string): Promise<AuditRow[]> {
    return query(
      manager,
      `SELECT id::text, at, actor, action, target, reason, detail, outcome FROM webhook_audit
        WHERE id < $2::bigint ORDER BY webhook_audit.id DESC LIMIT $1`,
      [limit, before ?? '9223372036854775807'],
    );
  }
}

/** An outcome may carry an error's text, and a detail what a person typed. */
function json(value: Readonly<Record<string, unknown>>): string {
  return storableJson(value, 4_000);
}
