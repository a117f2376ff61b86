import type { EventKey } from '../core/event.js';
import type { DeadReason } from '../core/states.js';
import type { NewHandlerRow } from './claim.store.js';
import { storedEvent, type StoredEvent } from './stored-event.js';
import type { OrderKey } from './turn.store.js';

/** A process's time-limited right to run a row, and the fence: only the holder of this attempt can settle it. */
export interface Lease {
  readonly id: string;
  readonly owner: string;
  readonly attempt: number;
}

/** How to treat new effects of a handler that was done for its event before. */
export type NewEffects = 'refuse' | 'allow';

/** A run of a row that was done once. */
export interface Rerun {
  /** The state that the row had before. */
  readonly from: 'done' | 'superseded' | 'dead';
  readonly newEffects: NewEffects;
  /** Effects that the last run was refused. */
  readonly refused?: readonly NamedEffect[];
}
/** An effect by its name and key. */
export interface NamedEffect {
  readonly name: string;
  readonly key: string;
}

/** A leased row with what its run needs. */
export interface LeasedRow extends Lease {
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  readonly key: string;
  /** Attempts since the row was enqueued or last revived, this one included; without those that do not count. */
  readonly tries: number;
  /** Attempts whose end was never recorded. */
  readonly lost: number;
  /** Whether the last attempt was one of those. */
  readonly wasLost: boolean;
  /** An attempt was lost and none has ended since. The row runs in quarantine, one such row at a time in each process. */
  readonly alone: boolean;
  readonly orderKey?: OrderKey;
  /** Above 0 when effects of this run were asked for once more. */
  readonly generation: number;
  /** Set for a handler that was done once for this event and runs again. */
  readonly rerun?: Rerun;
  /** An effect's call was begun and its end is unknown. */
  readonly begun: boolean;
  /** Milliseconds since the row was first leased. */
  readonly ageMs: number;
  /** Of an effect, by the database's clock. */
  readonly firstLeasedAt?: Date;
  /** On this process's monotonic clock, not before the event had arrived, or before the row became due once more. */
  readonly arrivedAt?: number;
  readonly event?: StoredEvent;
  /** In which it was enqueued: see `currentTrace`. */
  readonly trace?: string;
  /** An effect's frozen bytes. */
  readonly payload?: Buffer;
  /** The result of an earlier attempt of an effect whose settle failed, as JSON. */
  readonly previousResult?: string;
}

/** A row that the lease statement found exhausted: dead, or parked when its last attempt was begun and a person must decide. */
export interface ExhaustedRow {
  readonly id: string;
  readonly name: string;
  readonly attempt: number;
  readonly reason: DeadReason | 'in-doubt';
  readonly error?: string;
  readonly event?: EventKey;
}

export interface LeaseResult {
  readonly leased: LeasedRow[];
  readonly exhausted: ExhaustedRow[];
  /** By name, the due time of its last row. */
  readonly lastDue: ReadonlyMap<string, string>;
  /** The names that have due rows. Known of a lease of several names alone. */
  readonly seen: ReadonlySet<string>;
  /** Rows whose last attempt was lost. They moved to the quarantine, where `leaseAlone` finds them. */
  readonly moved: number;
}

/** A row as the lease statements return it. */
export interface LeaseQueryRow {
  id: string;
  kind: 'handler' | 'effect';
  name: string;
  key: string;
  attempt: number;
  tries: number;
  lost: number;
  was_lost: boolean;
  alone: boolean;
  moves: boolean;
  was_due: string;
  order_key: string | null;
  order_name: string | null;
  generation: number;
  rerun: Rerun | null;
  trace: string | null;
  begun: boolean;
  age_ms: number;
  first_leased_at: Date | null;
  queued_ms: number;
  exhausted: boolean;
  reason: ExhaustedRow['reason'] | null;
  error: string | null;
  source: string | null;
  tenant: string | null;
  event_id: string | null;
  claim_id: string | null;
  event_type: string | null;
  occurred_ms: number | null;
  received_ms: number | null;
  headers: Record<string, string> | null;
  body: Buffer | null;
  payload: Buffer | null;
  result: string | null;
  /** In the first row. */
  seen: readonly string[] | null;
}

export function leaseResult(rows: readonly LeaseQueryRow[], owner: string): LeaseResult {
  const leasedAt = performance.now();
  const leased: LeasedRow[] = [];
  const exhausted: ExhaustedRow[] = [];
  for (const row of rows.filter(({ moves }) => !moves)) {
    const event = eventOf(row);
    if (row.exhausted) {
      exhausted.push({
        id: row.id,
        name: row.name,
        attempt: row.attempt,
        reason: row.reason!,
        error: row.error ?? undefined,
        event,
      });
    } else {
      leased.push({
        id: row.id,
        owner,
        attempt: row.attempt,
        kind: row.kind,
        name: row.name,
        key: row.key,
        tries: row.tries,
        lost: row.lost,
        wasLost: row.was_lost,
        alone: row.alone,
        orderKey: row.order_key === null ? undefined : { name: row.order_name!, key: row.order_key },
        generation: row.generation,
        rerun: row.rerun ?? undefined,
        trace: row.trace ?? undefined,
        begun: row.begun,
        ageMs: row.age_ms,
        firstLeasedAt: row.first_leased_at ?? undefined,
        arrivedAt: arrival(row, leasedAt),
        event,
        payload: row.payload ?? undefined,
        previousResult: row.result ?? undefined,
      });
    }
  }
  return {
    leased,
    exhausted,
    moved: rows.length - leased.length - exhausted.length,
    lastDue: lastDueOf(rows),
    seen: new Set(rows[0]?.seen),
  };
}

/** A row's time is that of its transaction, which may have begun a moment before the delivery came. */
const BEGUN_BEFORE_MS = 50;

/** Of a first attempt by the row's age; a later one may have waited for something else. */
function arrival({ attempt, queued_ms: queuedMs }: LeaseQueryRow, leasedAt: number): number {
  return attempt === 1 ? leasedAt - Math.max(0, queuedMs - BEGUN_BEFORE_MS) : leasedAt;
}

/** Texts of PostgreSQL's times are in their order. */
function lastDueOf(rows: readonly LeaseQueryRow[]): Map<string, string> {
  const last = new Map<string, string>();
  for (const { name, was_due: due } of rows) {
    if (due > (last.get(name) ?? '')) last.set(name, due);
  }
  return last;
}

function eventOf(row: LeaseQueryRow): StoredEvent | undefined {
  if (row.claim_id === null) return undefined;
  return storedEvent({
    ...row,
    id: row.claim_id,
    source: row.source!,
    tenant: row.tenant!,
    event_id: row.event_id!,
    event_type: row.event_type!,
    received_ms: row.received_ms!,
    headers: row.headers!,
  });
}

/** An event that is being claimed. The database sets its arrival. */
export type NewEvent = Omit<StoredEvent, 'receivedAt'>;

/** The arrival, before the database has set it. */
const NOT_YET = new Date(0);

/** A row just inserted, as a lease would give it. */
export function rowJustLeased(
  { source, tenant, eventId, id, type, occurredAt, headers, body }: NewEvent,
  row: NewHandlerRow,
  owner: string,
  receivedAt: Date = NOT_YET,
): LeasedRow {
  return {
    id: row.id,
    owner,
    attempt: 1,
    tries: 1,
    lost: 0,
    wasLost: false,
    alone: false,
    generation: 0,
    begun: false,
    ageMs: 0,
    kind: 'handler',
    name: row.name,
    key: '',
    trace: row.trace,
    event: { source, tenant, eventId, id, type, occurredAt, receivedAt, headers, body },
  };
}
