import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';
import type { EventKey } from '../../core/event.js';
import { UUID, cursorText, type Cursor } from '../../core/cursor.js';
import {
  BY_EVENT_ID,
  BY_OUR_ID,
  CONFLICT_BODY,
  CONFLICTS,
  DETAIL,
  EVENT_ROWS,
  EVENTS,
  SOURCES,
  effects,
  effectsEnd,
  type Conflict,
  type EffectRow,
  type EventDetail,
  type EventRow,
  type ListedEvent,
} from './event.sql.js';
import { rareStates, type RareState } from './claim-filter.sql.js';
import type { ListFilter } from './filter.sql.js';
import {
  among,
  eventsWithValue,
  exactWalkEnd,
  moreRows,
  owedEvents,
  valueAsked,
  valueEnd,
  walk,
  walkEnd,
  type Walk,
} from './search.sql.js';

/** One page. `next` is set when there is more, or when the walk ended before it had read everything. */
export interface EventPage {
  readonly events: readonly ListedEvent[];
  readonly next?: string;
  /** Set when the page is not full because the walk has a limit: everything received since then was read. */
  readonly searchedTo?: string;
  /** Set when more rows are in the state than are read: the newest of the dead, any of the others. */
  readonly rowsLookedAt?: number;
}

/** Claims that one page may read; fewer where the state of each must be derived. */
const SCAN = 10_000;
const SCAN_STATES = 4_000;
const SCAN_ROWS = 5_000;
/** Keys that are answered from an event's rows. */
const DERIVED = ['state', 'handler', 'effect', 'error', 'attempts'];

/** Searches of people. Each statement is bounded in the rows that it may touch. */
@Injectable()
export class SearchStore {
  /**
   * A page of events, newest first.
   * @param from `next` of the page before
   * @param configured names of the sources in which an id is searched for
   */
  async events(
    manager: EntityManager,
    filter: ListFilter,
    limit: number,
    configured: readonly string[],
    from?: Cursor,
    scan?: number,
  ): Promise<EventPage> {
    const id = wholeId(filter);
    if (id !== undefined) return this.byId(manager, filter, id, configured);
    if (valueAsked(filter) !== undefined) return this.byValue(manager, filter, limit, configured, from, scan);
    const rows = rareStates(filter);
    const most = scan ?? (filter.tests.some(({ key }) => DERIVED.includes(key)) ? SCAN_STATES : SCAN);
    const hits = await run<Cursor>(
      manager,
      rows === undefined
        ? walk(filter, from, limit + 1, most)
        : owedEvents(filter, from, limit + 1, scan ?? SCAN_ROWS, rows),
    );
    const events = await this.page(manager, hits.slice(0, limit));
    if (hits.length > limit) return { events, next: cursorText(hits[limit - 1]!) };
    if (rows !== undefined) {
      const more = await this.hasMore(manager, rows, scan ?? SCAN_ROWS);
      return more ? { events, rowsLookedAt: scan ?? SCAN_ROWS } : { events };
    }
    let [end] = await run<Cursor>(manager, walkEnd(filter, from, most));
    if (end !== undefined && end.at === from?.at)
      [end] = await run<Cursor>(manager, exactWalkEnd(filter, from, most));
    return end === undefined ? { events } : { events, next: cursorText(end), searchedTo: end.at };
  }

  async detail(manager: EntityManager, id: string): Promise<EventDetail | undefined> {
    const [row]: EventDetail[] = await query(manager, DETAIL, [id]);
    return row;
  }

  /** The rows owed for an event, oldest first. */
  async rows(manager: EntityManager, { source, tenant, eventId }: EventKey): Promise<EventRow[]> {
    return query(manager, EVENT_ROWS, [source, tenant, eventId]);
  }

  async conflicts(manager: EntityManager, { source, tenant, eventId }: EventKey): Promise<Conflict[]> {
    return query(manager, CONFLICTS, [source, tenant, eventId]);
  }

  /** The stored bytes of an event, and its content type. */
  async body(
    manager: EntityManager,
    id: string,
  ): Promise<{ body: Buffer | null; contentType: string | null } | undefined> {
    const [row]: { body: Buffer | null; contentType: string | null }[] = await query(
      manager,
      `SELECT body, headers ->> 'content-type' AS "contentType" FROM webhook_claim WHERE id = $1`,
      [id],
    );
    return row;
  }

  /** Bytes that contradict those of the event. */
  async conflictBody(manager: EntityManager, id: string, sha256: string): Promise<Buffer | null | undefined> {
    const [row]: { body: Buffer | null }[] = await query(manager, CONFLICT_BODY, [id, sha256]);
    return row?.body;
  }

  /** The frozen payload of an effect. */
  async payload(manager: EntityManager, outboxId: string): Promise<Buffer | null | undefined> {
    const [row]: { payload: Buffer | null }[] = await query(
      manager,
      `SELECT payload FROM webhook_outbox_data WHERE outbox_id = $1`,
      [outboxId],
    );
    return row?.payload;
  }

  async effects(
    manager: EntityManager,
    filter: ListFilter,
    limit: number,
    before?: string,
  ): Promise<{ readonly effects: EffectRow[]; readonly next?: string }> {
    const rows = await run<EffectRow>(manager, effects(filter, limit, SCAN_ROWS, before));
    if (rows.length === limit) return { effects: rows, next: rows.at(-1)!.id };
    const [end] = await run<{ id: string }>(manager, effectsEnd(filter, SCAN_ROWS, before));
    if (end === undefined) return { effects: rows };
    // One state was read no further than to there, and another to its end.
    return { effects: rows.filter(({ id }) => id >= end.id), next: end.id };
  }

  /** Source and tenant of claims and of outbox rows, by our ids. */
  async scopes(
    manager: EntityManager,
    ids: readonly string[],
  ): Promise<Map<string, { source: string; tenant: string }>> {
    const rows: { id: string; source: string; tenant: string }[] = await query(
      manager,
      `SELECT id, source, tenant FROM webhook_claim WHERE id = ANY($1::uuid[])
        UNION ALL SELECT id, source, tenant FROM webhook_outbox WHERE id = ANY($1::uuid[]) AND source IS NOT NULL`,
      [ids],
    );
    return new Map(rows.map(({ id, source, tenant }) => [id, { source, tenant }]));
  }

  /** The last event of each source. */
  async lastEvents(
    manager: EntityManager,
    sources: readonly string[],
  ): Promise<
    { source: string; lastAt: Date | null; lastType: string | null; lastVerifiedBy: string | null }[]
  > {
    return query(manager, SOURCES, [sources]);
  }

  private async byValue(
    manager: EntityManager,
    filter: ListFilter,
    limit: number,
    configured: readonly string[],
    from: Cursor | undefined,
    scan = SCAN_ROWS,
  ): Promise<EventPage> {
    const hits = await run<Cursor>(manager, eventsWithValue(filter, from, limit + 1, scan, configured));
    const events = await this.page(manager, hits.slice(0, limit));
    if (hits.length > limit) return { events, next: cursorText(hits[limit - 1]!) };
    const [end] = await run<Cursor>(manager, valueEnd(filter, from, scan, configured));
    return end === undefined ? { events } : { events, next: cursorText(end), searchedTo: end.at };
  }

  private async byId(
    manager: EntityManager,
    filter: ListFilter,
    id: string,
    configured: readonly string[],
  ): Promise<EventPage> {
    const found: Cursor[] = UUID.test(id) ? await query(manager, BY_OUR_ID, [id]) : [];
    const named: Cursor[] = await query(manager, BY_EVENT_ID, [configured, id]);
    const ids = [...new Set([...found, ...named].map(({ id: one }) => one))];
    if (ids.length === 0) return { events: [] };
    const tests = filter.tests.filter(({ key, not }) => key !== 'id' || not);
    return { events: await this.page(manager, await run<Cursor>(manager, among({ ...filter, tests }, ids))) };
  }

  private async hasMore(
    manager: EntityManager,
    states: readonly RareState[],
    scan: number,
  ): Promise<boolean> {
    for (const state of states) {
      const more = await run<unknown>(manager, moreRows(state, scan));
      if (more.length > 0) return true;
    }
    return false;
  }

  private async page(manager: EntityManager, cursors: readonly Cursor[]): Promise<ListedEvent[]> {
    return query(manager, EVENTS, [cursors.map(({ id }) => id)]);
  }
}

/** The id that is asked for, where it is a whole one. */
function wholeId({ tests }: ListFilter): string | undefined {
  const [value] = tests.find(({ key, not }) => key === 'id' && !not)?.values ?? [];
  return value?.endsWith('*') ? undefined : value;
}

async function run<T>(manager: EntityManager, { text, parameters }: Walk): Promise<T[]> {
  return query(manager, text, parameters);
}
