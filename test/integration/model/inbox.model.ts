// What the inbox promises about each row, as a small machine without a database. Written from the protocol, not from the SQL.

export const EVENTS = ['a', 'b', 'c'] as const;
export const UNITS = ['handle', 'mail', 'charge'] as const;
export type EventId = (typeof EVENTS)[number];
/** A handler, which enqueues two effects: `mail` is repeated when its end is not known, `charge` is parked. */
export type Unit = (typeof UNITS)[number];
export type Effect = Exclude<Unit, 'handle'>;

export const MAX_ATTEMPTS = 3;

/** How a run ends. `fails`: nobody knows what was done. `refused`: nothing was. `hangs`: not yet. */
export const ENDS = ['done', 'fails', 'refused', 'permanent'] as const;
export type End = (typeof ENDS)[number];
export type Outcome = End | 'hangs';
export type State = 'pending' | 'done' | 'dead' | 'parked' | 'erased' | 'gone';

/** One attempt that is under way, or was. */
export interface Run {
  readonly relay: number;
  readonly attempt: number;
  /** It ran in the lane of rows whose last attempt was lost; as the only suspect, when it was lost there before. */
  readonly lane: boolean;
  readonly exclusive: boolean;
}

export interface Row {
  /** PostgreSQL's; known when the row was first seen. */
  id?: string;
  readonly event: EventId;
  readonly unit: Unit;
  state: State;
  reason: string | null;
  attempt: number;
  lost: number;
  due: boolean;
  /** The attempt after which the present budget counts. */
  base: number;
  /** Attempts in a row that were lost. */
  lane: number;
  lease?: Run;
  expired: boolean;
  /** A call was begun whose end is not known, of the effect that is parked for it. */
  begun: boolean;
  /** The key was used, since a person last had it run; and the other side may have forgotten it. */
  used: boolean;
  aged: boolean;
  /** A redelivery has given it new attempts. */
  revived: boolean;
  /** Of a handler: how often a person asked for an effect once more. */
  generation: number;
}

export interface Claim {
  readonly variant: number;
  erased: boolean;
  old: boolean;
}

export interface Held {
  readonly row: Row;
  readonly run: Run;
}

export class InboxModel {
  rows: Row[] = [];
  readonly claims = new Map<EventId, Claim>();
  readonly conflicts = new Set<string>();
  readonly paused = new Set<Unit | 'source'>();
  /** How often a handler's work was committed, by event. */
  readonly applied = new Map<EventId, number>();
  /** Keys under which an effect was called. */
  readonly called = new Set<Row>();
  /** Runs that have not ended; their leases may have. */
  held: Held[] = [];

  /** @param note told of what happens, so that a test knows what it has seen */
  constructor(readonly note: (what: string) => void = () => undefined) {}

  deliver(event: EventId, variant: number): 'ok' | 'duplicate' {
    const claim = this.claims.get(event);
    if (claim === undefined) {
      this.claims.set(event, { variant, erased: false, old: false });
      this.owe(event, 'handle');
      return 'ok';
    }
    if (claim.erased) return 'duplicate';
    if (claim.variant !== variant) this.conflicts.add(`${event}/${variant}`);
    const handler = this.handler(event);
    if (handler.state === 'dead' && !handler.revived) {
      this.restart(handler);
      handler.revived = true;
      this.note('revived by a redelivery');
    }
    return 'duplicate';
  }

  /** What waits is due: hours have passed. */
  makeDue(): void {
    for (const row of this.pending()) if (row.lease === undefined) row.due = true;
  }

  /** Days have passed for the other side of an event's effects. */
  forget(event: EventId): void {
    for (const row of this.of(event)) if (row.unit !== 'handle' && row.used) row.aged = true;
  }

  replay(event: EventId, refire: Effect | undefined): boolean {
    const claim = this.claims.get(event);
    if (claim === undefined || claim.erased) return false;
    const handler = this.handler(event);
    if (handler.state === 'pending') return false;
    if (refire !== undefined) {
      const owed = this.of(event).filter((row) => row.unit === refire);
      if (owed.some((row) => row.state !== 'done')) return false;
      handler.generation += 1;
      for (const row of owed) this.former.add(row);
      if (owed.length > 0) this.note(`${refire} once more`);
    }
    this.restart(handler);
    return true;
  }

  revive(row: Row): boolean {
    if (row.state !== 'dead') return false;
    this.restart(row);
    return true;
  }

  decide(row: Row, decision: 'retry' | 'done' | 'dead'): boolean {
    if (row.state !== 'parked') return false;
    // The person knows what became of the call, and answers for the key.
    row.begun = false;
    row.aged = false;
    row.used = false;
    if (decision === 'retry') this.restart(row);
    else this.end(row, decision, decision === 'dead' ? 'given-up' : null);
    return true;
  }

  /** @returns how many rows are cancelled by it; undefined when there is nothing to erase */
  erase(event: EventId): number | undefined {
    const claim = this.claims.get(event);
    if (claim === undefined || claim.erased) return undefined;
    claim.erased = true;
    const owed = this.of(event).filter(({ state }) => ['pending', 'dead', 'parked'].includes(state));
    for (const row of owed) this.end(row, 'erased', null);
    return owed.length;
  }

  /** Deletes old claims of which nothing is owed; returns how many. */
  prune(event: EventId): number {
    const claim = this.claims.get(event);
    if (claim !== undefined) claim.old = true;
    let count = 0;
    for (const [id, { old }] of this.claims) {
      const rows = this.of(id);
      if (!old || rows.some(({ state }) => state === 'pending' || state === 'parked')) continue;
      count += 1;
      this.claims.delete(id);
      // What contradicted an event is of no use without it.
      for (const conflict of this.conflicts)
        if (conflict.startsWith(`${id}/`)) this.conflicts.delete(conflict);
      for (const row of rows) row.state = 'gone';
      this.rows = this.rows.filter((row) => row.event !== id);
    }
    if (count > 0) this.note('pruned');
    return count;
  }

  isPaused({ unit }: Row): boolean {
    return this.paused.has(unit) || (unit === 'handle' && this.paused.has('source'));
  }

  of(event: EventId): Row[] {
    return this.rows.filter((row) => row.event === event);
  }

  pending(): Row[] {
    return this.rows.filter(({ state }) => state === 'pending');
  }

  /** Someone holds a lease that has not ended. */
  isLeased(row: Row): boolean {
    return row.lease !== undefined && !row.expired;
  }

  /** A run ends by itself; its lease may have ended long before. */
  endRun(held: Held, how: End): void {
    const { row, run } = held;
    this.held = this.held.filter((one) => one !== held);
    if (row.state === 'pending' && row.lease === run) return this.settle(row, how);
    this.note(`${row.unit} refused by the fence`);
    // What happened has happened: an effect's late result is taken as long as nobody has tried again.
    const isFree = row.state === 'parked' || (row.state === 'pending' && row.lease === undefined);
    if (row.unit === 'handle' || how !== 'done' || !isFree || row.attempt !== run.attempt) return;
    this.note(`${row.unit} ended late`);
    this.end(row, 'done', null);
  }

  /** The fenced end of the attempt that holds the lease. */
  settle(row: Row, how: End): void {
    const tries = row.attempt - row.base - (row.unit === 'handle' && row.lane > 0 ? 1 : 0);
    // A handler's loss that was not its own is forgiven with the first end that is recorded.
    if (row.unit === 'handle' && row.lane > 0 && how !== 'done') row.base += 1;
    row.lane = 0;
    row.begun = row.unit === 'charge' && how === 'fails';
    if (how === 'done') {
      this.end(row, 'done', null);
      if (row.unit === 'handle') this.commit(row.event);
    } else if (how === 'permanent') this.end(row, 'dead', 'permanent-error');
    else if (row.begun) this.end(row, 'parked', 'in-doubt');
    else if (tries >= MAX_ATTEMPTS) this.end(row, 'dead', 'attempts-exhausted');
    else {
      this.note(`${row.unit} to be retried`);
      row.lease = undefined;
      row.due = false;
    }
  }

  end(row: Row, state: State, reason: string | null): void {
    this.note(`${row.unit} ${reason ?? state}`);
    Object.assign(row, { state, reason, lease: undefined, expired: false });
  }

  /** Rows of effects that a person has asked for once more: they are done, and stay so. */
  private readonly former = new Set<Row>();

  private commit(event: EventId): void {
    this.applied.set(event, (this.applied.get(event) ?? 0) + 1);
    for (const unit of ['mail', 'charge'] as const) {
      const present = this.of(event).some((row) => row.unit === unit && !this.former.has(row));
      if (!present) this.owe(event, unit);
    }
  }

  private owe(event: EventId, unit: Unit): void {
    this.rows.push({
      event,
      unit,
      state: 'pending',
      reason: null,
      attempt: 0,
      lost: 0,
      due: true,
      base: 0,
      lane: 0,
      expired: false,
      begun: false,
      used: false,
      aged: false,
      revived: false,
      generation: 0,
    });
  }

  private restart(row: Row): void {
    Object.assign(row, { state: 'pending', reason: null, due: true, base: row.attempt, lane: 0 });
  }

  private handler(event: EventId): Row {
    return this.of(event).find(({ unit }) => unit === 'handle')!;
  }
}
