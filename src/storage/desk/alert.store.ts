import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable, storableJson } from '../../core/event.js';
import { query } from '../schema/own-schema.js';

const MAX_SUBJECT_BYTES = 600;
const MAX_FACT_BYTES = 4_000;

/** An alert that was raised. */
export interface ToldAlert {
  readonly id: string;
  readonly at: Date;
  readonly kind: string;
  readonly subject: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

@Injectable()
export class AlertStore {
  async add(manager: EntityManager, alerts: readonly Omit<ToldAlert, 'id'>[]): Promise<void> {
    await query(
      manager,
      `INSERT INTO webhook_alert (at, kind, subject, facts)
       SELECT * FROM unnest($1::timestamptz[], $2::text[], $3::text[], $4::jsonb[])`,
      [
        alerts.map((a) => a.at),
        alerts.map((a) => a.kind),
        alerts.map((a) => storable(a.subject, MAX_SUBJECT_BYTES)),
        alerts.map((a) => storableJson(a.facts, MAX_FACT_BYTES)),
      ],
    );
  }

  /** Newest first. */
  async list(manager: EntityManager, limit: number): Promise<ToldAlert[]> {
    return query(
      manager,
      `SELECT id::text, at, kind, subject, facts FROM webhook_alert ORDER BY webhook_alert.id DESC LIMIT $1`,
      [limit],
    );
  }

  /** Keeps the newest `keep`. */
  async prune(manager: EntityManager, keep: number): Promise<void> {
    await query(
      manager,
      `DELETE FROM webhook_alert WHERE id <= (SELECT id FROM webhook_alert ORDER BY id DESC OFFSET $1 LIMIT 1)`,
      [keep],
    );
  }
}
