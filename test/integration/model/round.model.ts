import {
  MAX_ATTEMPTS,
  type End,
  type EventId,
  type InboxModel,
  type Outcome,
  type Row,
  type Run,
  type Unit,
} from './inbox.model.js';

/** A row as it is after a round. */
export interface Seen {
  readonly id: string;
  readonly event: EventId;
  readonly unit: Unit;
  readonly attempt: number;
  readonly lost: number;
}

/** A call of a handler's or an effect's method. */
export interface Call {
  readonly relay: number;
  readonly unit: Unit;
  readonly event: EventId;
  readonly attempt: number;
  readonly outboxId: string;
  readonly outcome: Outcome;
}

/** What a round did to a row that it might have leased. `moved`: into the lane, where it waits. */
type Step = 'taken' | 'ended' | 'moved' | 'left';

/**
 * A relay's round. Which rows a round takes is not all laid down: what an effect's handler has only just enqueued may be taken or
 * not, and of the lane's rows any one. So the model looks which attempts were counted, says whether that was allowed and whether
 * more had to be, and works out everything else by itself.
 */
export class RoundModel {
  private readonly exclusive: boolean;
  private readonly laneBusy: boolean;
  private calls: readonly Call[] = [];

  constructor(
    private readonly model: InboxModel,
    private readonly relay: number,
  ) {
    const runs = model.held.filter(({ run }) => run.relay === relay).map(({ run }) => run);
    this.exclusive = runs.some((run) => run.exclusive);
    this.laneBusy = runs.some((run) => run.lane);
  }

  /** @throws Error saying what was not allowed, or was missing */
  play(calls: readonly Call[], seen: readonly Seen[]): void {
    const { model } = this;
    this.calls = calls;
    const before = [...model.rows];
    const steps = before.flatMap((row) => {
      const lane = row.lane + (row.lease === undefined ? 0 : 1);
      const was = row.lane;
      const step = this.step(row, seen);
      return step === undefined ? [] : [{ row, was, lane, step }];
    });
    const alone = steps.some(({ lane, step }) => step === 'taken' && lane > 1);
    for (const { row, was, step } of steps) {
      if (this.exclusive && step !== 'left') fail(row, 'a row was leased beside one that is to run alone');
      if (!this.exclusive && !alone && was === 0 && step === 'left') fail(row, 'a due row was not leased');
    }
    this.checkLane(steps.filter(({ was, lane, step }) => was > 0 || (lane > 0 && step !== 'ended')));
    // What was enqueued during the round may have been leased at once.
    for (const row of model.rows.slice(before.length)) {
      row.id = seen.find((one) => !model.rows.some(({ id }) => id === one.id) && isOf(one, row))?.id;
      this.step(row, seen);
    }
    const stray = this.calls.find(() => true);
    if (stray !== undefined) throw new Error(`model: a run that is nobody's: ${JSON.stringify(stray)}`);
  }

  private checkLane(steps: readonly { readonly row: Row; readonly step: Step }[]): void {
    const taken = steps.filter(({ step }) => step === 'taken');
    if (this.laneBusy && taken.length > 0) fail(taken[0]!.row, 'the lane has one row at a time');
    // One at the beginning of the round, and one of those that came into the lane in it.
    if (taken.length > 2) fail(taken[0]!.row, `${taken.length} rows of the lane in one round`);
    if (steps.length === 0 || this.laneBusy || this.exclusive) return;
    if (steps.every(({ step }) => step === 'left' || step === 'moved'))
      fail(steps[0]!.row, 'no row of the lane was leased');
  }

  /** Undefined for a row that no round may touch now. */
  private step(row: Row, seen: readonly Seen[]): Step | undefined {
    const { model } = this;
    const isDue = row.lease === undefined ? row.due : row.expired;
    if (row.state !== 'pending' || model.isPaused(row) || !isDue) return undefined;
    const now = seen.find(({ id }) => id === row.id);
    if (now === undefined) fail(row, 'the row is not there');
    const lost = row.lease !== undefined;
    if (lost && now.lost === row.lost) return 'left';
    if (lost) {
      Object.assign(row, { lost: row.lost + 1, lane: row.lane + 1, lease: undefined, expired: false });
      if (isExhausted(row)) {
        if (row.begun) model.end(row, 'parked', 'in-doubt');
        else model.end(row, 'dead', 'last-attempt-lost');
        return 'ended';
      }
    }
    if (now.attempt === row.attempt) return lost ? 'moved' : 'left';
    this.run(row);
    return 'taken';
  }

  private run(row: Row): void {
    const { model, relay } = this;
    row.attempt += 1;
    row.used = true;
    const run: Run = { relay, attempt: row.attempt, lane: row.lane > 0, exclusive: row.lane > 1 };
    Object.assign(row, { lease: run, expired: false });
    if (row.begun) return model.end(row, 'parked', 'in-doubt');
    if (row.aged && row.attempt > 1) return model.end(row, 'parked', 'key-expired');
    const call = this.calls.find(
      (one) =>
        one.outboxId === row.id && one.attempt === row.attempt && one.relay === relay && isOf(one, row),
    );
    if (call === undefined) fail(row, 'the row was leased and not run');
    this.calls = this.calls.filter((one) => one !== call);
    if (row.unit !== 'handle') model.called.add(row);
    if (call.outcome === 'hangs') {
      row.begun = row.unit === 'charge';
      model.held.push({ row, run });
    } else model.settle(row, call.outcome satisfies End);
  }
}

/** Of a handler the first loss never makes it dead: it may have been another row's. */
function isExhausted({ unit, attempt, base, lane }: Row): boolean {
  return attempt - base >= MAX_ATTEMPTS && (unit !== 'handle' || lane > 1);
}

function isOf(one: { event: string; unit: string }, { event, unit }: Row): boolean {
  return one.event === event && one.unit === unit;
}

function fail({ event, unit, attempt }: Row, what: string): never {
  throw new Error(`model: ${what}: ${event}/${unit}, attempt ${attempt}`);
}
