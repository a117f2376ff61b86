import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { Decider } from '../core/decider.js';
import type { EventKey } from '../core/event.js';
import type { OutboxState } from '../core/states.js';
import { query } from './schema/own-schema.js';
import { noteAct } from './desk/attempt.store.js';
import { DECIDED, noted, type DecidedRow } from './desk/decision.store.js';
import type { OrderKey } from './turn.store.js';

export interface NewEffect {
  readonly id: string;
  readonly name: string;
  /** The name from which its ids are derived. A rename does not change it. */
  readonly firstName: string;
  readonly key: string;
  readonly parentId?: string;
  readonly event?: EventKey;
  readonly payload: Buffer;
  readonly orderKey?: string;
  /** Not before; `delayMs` counts from now by the database's clock. */
  readonly runAt?: Date;
  readonly delayMs?: number;
  /** In which it was enqueued. */
  readonly trace?: string;
}

/** Effects as they come into the outbox; there they are rows like others. */
@Injectable()
export class EffectStore {
  /** Inserts effects with their frozen payloads. Returns the ids of those that were not there already: those stay as they are. */
  async enqueue(manager: EntityManager, effects: readonly NewEffect[]): Promise<Set<string>> {
    let end = 1;
    const payloadAt = effects.map(({ payload }) => (end += payload.length) - payload.length);
    const rows: { id: string }[] = await query(manager, ENQUEUE, [
      effects.map((e) => e.id),
      effects.map((e) => e.name),
      effects.map((e) => e.key),
      effects.map((e) => e.parentId ?? null),
      effects.map((e) => e.event?.source ?? null),
      effects.map((e) => e.event?.tenant ?? null),
      effects.map((e) => e.event?.eventId ?? null),
      effects.map((e) => e.orderKey ?? null),
      effects.map((e) => e.runAt ?? null),
      effects.map((e) => e.delayMs ?? 0),
      effects.map((e) => e.firstName),
      payloadAt,
      effects.map((e) => e.payload.length),
      Buffer.concat(effects.map((e) => e.payload)),
      effects.map((e) => e.trace ?? null),
    ]);
    return new Set(rows.map(({ id }) => id));
  }

  /** The first of `ids` that exists, with whether its payload is other than `payload`; that difference is recorded on it. */
  async findExisting(
    manager: EntityManager,
    ids: readonly string[],
    payload: Buffer,
  ): Promise<{ id: string; otherPayload: boolean } | undefined> {
    const rows: { id: string; other: boolean }[] = await query(manager, EXISTING, [ids, payload]);
    return rows[0] && { id: rows[0].id, otherPayload: rows[0].other };
  }

  /** Those of the ids that are there, as this transaction sees it. */
  async findPresent(manager: EntityManager, ids: readonly string[]): Promise<Set<string>> {
    const rows: { id: string }[] = await query(
      manager,
      `SELECT id FROM webhook_outbox WHERE id = ANY($1::uuid[])`,
      [ids],
    );
    return new Set(rows.map(({ id }) => id));
  }

  /** The id of the effect that was enqueued outside a run under this key, by any of these as its first name. */
  async idOfKey(manager: EntityManager, names: readonly string[], key: string): Promise<string | undefined> {
    const rows: { id: string }[] = await query(
      manager,
      `SELECT id FROM webhook_outbox
        WHERE order_name = ANY($1) AND key = $2 AND parent_id IS NULL AND kind = 'effect' AND key <> ''`,
      [names, key],
    );
    return rows[0]?.id;
  }

  /**
   * Calls a pending effect back that no instance has leased and whose call has not begun. Where a lease is being made, it waits for it.
   * @param decider a person who asks for it: the history of the row names them
   * @returns what became of the row; undefined when there is none
   */
  async cancel(manager: EntityManager, id: string, decider?: Decider): Promise<Cancelled | undefined> {
    const rows: CancelledRow[] =
      decider === undefined
        ? await query(manager, cancel(''), [id])
        : await query(manager, cancel(CANCELLED_BY), [id, ...noted(decider)]);
    const [row] = rows;
    if (row === undefined) return undefined;
    const { state, cancelled, had_turn: hadTurn, order_name: orderName, order_key: key, ...told } = row;
    const turn = hadTurn && orderName !== null && key !== null ? { name: orderName, key } : undefined;
    return { state, isCancelled: cancelled, turn, told };
  }
}

/** The end of a call-back. */
export interface Cancelled {
  readonly state: OutboxState;
  /** This call did it. */
  readonly isCancelled: boolean;
  /** The order key whose turn the row had: the next row of the key may run. */
  readonly turn?: OrderKey;
  readonly told: DecidedRow;
}

interface CancelledRow extends DecidedRow {
  readonly state: OutboxState;
  readonly cancelled: boolean;
  readonly had_turn: boolean;
  readonly order_name: string | null;
  readonly order_key: string | null;
}

// The row is locked first: a lease that is being made is waited for, and then seen.
const cancel = (act: string) => `
  WITH found AS MATERIALIZED (
    SELECT id, state, waits, leased_by, begun_at FROM webhook_outbox WHERE id = $1 AND kind = 'effect' FOR UPDATE
  ), cancelled AS (
    UPDATE webhook_outbox o SET state = 'cancelled', settled_at = clock_timestamp(), waits = false, alone = false
      FROM found f
     WHERE o.id = f.id AND f.state = 'pending' AND f.leased_by IS NULL AND f.begun_at IS NULL
    RETURNING o.id, o.attempt
  )${act}
  SELECT CASE WHEN c.id IS NULL THEN f.state ELSE 'cancelled' END AS state, c.id IS NOT NULL AS cancelled,
         c.id IS NOT NULL AND NOT f.waits AS had_turn, o.order_name, o.order_key, ${DECIDED}
    FROM found f JOIN webhook_outbox o ON o.id = f.id LEFT JOIN cancelled c ON c.id = f.id`;

const CANCELLED_BY = `, ${noteAct('cancelled', 'cancelled', '$2', '$3')}`;

// One microsecond after the other, in the order of the calls: it is the place in the line of those with an order key. The payloads come
// as one value: an array of them would be sent as text, twice as long.
export const ENQUEUE = `
  WITH given AS (
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[],
                         $9::timestamptz[], $10::float8[], $11::text[], $12::int[], $13::int[], $15::text[]) WITH ORDINALITY
           AS g(id, name, key, parent_id, source, tenant, event_id, order_key, run_at, delay_ms, first_name,
                payload_at, payload_bytes, trace, nth)
  ), enqueued AS (
    INSERT INTO webhook_outbox (id, kind, name, key, parent_id, source, tenant, event_id, order_key, order_name, waits, due_at,
                                trace)
    SELECT id, 'effect', name, key, parent_id, source, tenant, event_id, order_key,
           CASE WHEN order_key IS NOT NULL OR (parent_id IS NULL AND key <> '') THEN first_name END, order_key IS NOT NULL,
           coalesce(run_at, clock_timestamp() + delay_ms * interval '1 ms') + nth * interval '1 us', trace
      FROM given
        ON CONFLICT DO NOTHING
    RETURNING id
  ), data AS (
    INSERT INTO webhook_outbox_data (outbox_id, payload)
    SELECT id, substring($14::bytea FROM payload_at FOR payload_bytes) FROM enqueued JOIN given USING (id)
  )
  SELECT id FROM enqueued`;

const EXISTING = `
  WITH found AS (
    SELECT d.outbox_id AS id, d.payload IS NOT NULL AND d.payload <> $2 AS other
      FROM webhook_outbox_data d JOIN webhook_outbox o ON o.id = d.outbox_id
     WHERE d.outbox_id = ANY($1::uuid[]) LIMIT 1
  ), noted AS (
    UPDATE webhook_outbox_data d SET other_payload_sha256 = sha256($2)
      FROM found WHERE d.outbox_id = found.id AND found.other
  )
  SELECT id, other FROM found`;
