import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { storable, type EventKey } from '../../core/event.js';
import type { Decider } from '../../core/decider.js';
import type { EventState, OutboxState } from '../../core/states.js';
import type { NewEffects, Rerun } from '../leased-rows.js';
import { query } from '../schema/own-schema.js';
import { noted } from './decision.store.js';
import {
  GENERATION,
  REFIRE,
  REPLAY_ROW,
  ROWS_OF_EVENT,
  SELECT_EVENTS,
  TAKE_FOR_REPLAY,
} from './replay.sql.js';

/** Which events: all criteria must hold. */
export interface EventCriteria {
  readonly source?: string;
  readonly tenant?: string;
  /** Exact, or with `*` for any text. */
  readonly type?: string;
  readonly state?: EventState;
  /** Received at or after. */
  readonly from?: Date;
  /** Received before. */
  readonly to?: Date;
}

/** An outbox row as a replay reads it. */
export interface EventRow {
  readonly id: string;
  readonly parentId: string | undefined;
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly key: string;
  readonly state: OutboxState;
  readonly attempt: number;
  readonly generation: number;
  /** Null for a row that was never done before its present state. */
  readonly rerun: Rerun | null;
  readonly leased: boolean;
}

@Injectable()
export class ReplayStore {
  /** Marks an event as taken by a replay. */
  async take(
    manager: EntityManager,
    replayId: string,
    claimId: string,
    by: string,
    reason: string,
  ): Promise<void> {
    await query(manager, TAKE_FOR_REPLAY, [replayId, claimId, storable(by, 255), storable(reason, 1_000)]);
  }

  async isTaken(manager: EntityManager, replayId: string, claimId: string): Promise<boolean> {
    const rows: unknown[] = await query(
      manager,
      `SELECT FROM webhook_replay WHERE replay_id = $1 AND claim_id = $2`,
      [replayId, claimId],
    );
    return rows.length === 1;
  }

  /**
   * Makes a settled handler row pending again, with new attempts.
   * @param refire begins a generation in which effects may be asked for once more
   * @param newEffects of a handler that was done once for the event
   * @returns the row's generation; undefined when it is not settled
   */
  async replayRow(
    manager: EntityManager,
    outboxId: string,
    refire: boolean,
    newEffects: NewEffects,
    decider: Decider,
  ): Promise<number | undefined> {
    const rows: { generation: number }[] = await query(manager, REPLAY_ROW, [
      outboxId,
      refire,
      newEffects,
      ...noted(decider),
    ]);
    return rows[0]?.generation;
  }

  async refire(
    manager: EntityManager,
    outboxId: string,
    effect: string,
    generation: number,
    replayId: string,
  ): Promise<void> {
    await query(manager, REFIRE, [outboxId, effect, generation, replayId]);
  }

  /** The generation in which an effect of this run is now: 0 unless a person asked for it once more. */
  async generationOf(
    manager: EntityManager,
    outboxId: string,
    effectNames: readonly string[],
  ): Promise<number> {
    const [row]: { generation: number }[] = await query(manager, GENERATION, [outboxId, effectNames]);
    return row!.generation;
  }

  async rowsOf(manager: EntityManager, key: EventKey): Promise<EventRow[]> {
    const rows: (Omit<EventRow, 'parentId'> & { parent_id: string | null })[] = await query(
      manager,
      ROWS_OF_EVENT,
      [key.source, key.tenant, key.eventId],
    );
    return rows.map(({ parent_id, ...row }) => ({ ...row, parentId: parent_id ?? undefined }));
  }

  /** The same keys in the order in which their events arrived; unknown ones last. */
  async byArrival(manager: EntityManager, keys: readonly EventKey[]): Promise<EventKey[]> {
    const rows: { source: string; tenant: string; event_id: string }[] = await query(
      manager,
      `SELECT k.source, k.tenant, k.event_id
         FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS k(source, tenant, event_id, nth)
         LEFT JOIN webhook_claim c ON c.source = k.source AND c.tenant = k.tenant AND c.event_id = k.event_id
        ORDER BY c.received_at NULLS LAST, c.id, k.nth`,
      [keys.map((key) => key.source), keys.map((key) => key.tenant), keys.map((key) => key.eventId)],
    );
    return rows.map(({ event_id: eventId, ...row }) => ({ ...row, eventId }));
  }

  /** Events that fit, oldest first; without those that the replay has taken already. */
  async select(
    manager: EntityManager,
    criteria: EventCriteria,
    limit: number,
    replayId?: string,
  ): Promise<(EventKey & { readonly id: string })[]> {
    const rows: { id: string; source: string; tenant: string; event_id: string }[] = await query(
      manager,
      SELECT_EVENTS,
      [
        criteria.source ?? null,
        criteria.type === undefined ? null : likePattern(criteria.type),
        criteria.state ?? null,
        criteria.from ?? null,
        criteria.to ?? null,
        criteria.tenant ?? null,
        replayId ?? null,
        limit,
      ],
    );
    return rows.map(({ event_id: eventId, ...row }) => ({ ...row, eventId }));
  }
}

function likePattern(type: string): string {
  return type.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%');
}
