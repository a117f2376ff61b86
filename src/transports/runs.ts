import { endsWithin, orAborted } from '../core/time/waits.js';
import type { Verdict } from './effect-transport.js';

/** The pause after a handler has rejected. Without it, a message that fails at once would take all the time of its consumer. */
const REJECTED_MS = 1_000;
/** Waits for the engine after the grace. */
const SETTLE_MS = 5_000;

/** A message that a consumer holds. */
interface Run {
  readonly stop: AbortController;
  readonly settled: Promise<void>;
}

/**
 * The runs of a subscription. At most `concurrency` are on at once. Engines give messages ahead and for each effect apart: those that
 * have no slot yet wait here.
 */
export class Runs {
  private readonly held = new Set<Run>();
  private readonly waiting: (() => void)[] = [];
  private on = 0;
  private readonly closing = new AbortController();

  constructor(
    readonly concurrency: number,
    private readonly tell: (error: unknown) => void,
  ) {}

  /** Fires when no further message may begin. */
  get closed(): AbortSignal {
    return this.closing.signal;
  }

  /** Free slots; one at least, so that a message waits here while all are taken, and not for a round trip to the engine. */
  get room(): number {
    return Math.max(1, this.concurrency - this.held.size);
  }

  /**
   * Runs `work` when a slot is free, and gives its verdict to `settle`. A message comes again at once if its work has not begun when
   * the subscription closes, or if its signal has fired.
   * @returns fires the signal
   */
  begin(
    work: (signal: AbortSignal) => Promise<Verdict>,
    settle: (verdict: Verdict) => unknown,
  ): (reason: Error) => void {
    const stop = new AbortController();
    const settled = this.verdictOf(work, stop.signal)
      .then(settle)
      .catch(this.tell)
      .then(() => void this.held.delete(run));
    const run = { stop, settled };
    this.held.add(run);
    return (reason) => stop.abort(reason);
  }

  /** Fires the signals of all: the engine gives their messages to other consumers. */
  abort(reason: Error): void {
    for (const { stop } of this.held) stop.abort(reason);
  }

  /** Begins none any more, and resolves when all are settled. Those that are on after `graceMs` have their signals. */
  async close(graceMs: number): Promise<void> {
    this.closing.abort();
    this.on += this.waiting.length;
    for (const go of this.waiting.splice(0)) go();
    const settled = () => Promise.all([...this.held].map((run) => run.settled));
    if (await endsWithin(settled(), graceMs)) return;
    this.abort(new Error('the consumer has stopped'));
    await endsWithin(settled(), SETTLE_MS);
  }

  private async verdictOf(
    work: (signal: AbortSignal) => Promise<Verdict>,
    signal: AbortSignal,
  ): Promise<Verdict> {
    await this.slot();
    if (this.closed.aborted || signal.aborted) {
      this.next();
      return { kind: 'again', delayMs: 0 };
    }
    const running = Promise.resolve().then(() => work(signal));
    // A handler that does not heed its signal keeps its slot.
    void running.catch(() => undefined).then(() => this.next());
    try {
      return await orAborted(running, signal);
    } catch (error) {
      if (signal.aborted) return { kind: 'again', delayMs: 0 };
      this.tell(error);
      return { kind: 'again', delayMs: REJECTED_MS };
    }
  }

  private async slot(): Promise<void> {
    if (this.on < this.concurrency) {
      this.on += 1;
      return;
    }
    await new Promise<void>((resolve) => this.waiting.push(resolve));
  }

  private next(): void {
    const go = this.waiting.shift();
    if (go === undefined) this.on -= 1;
    else go();
  }
}
