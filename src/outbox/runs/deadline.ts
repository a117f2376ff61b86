import { WebhookInboxError } from '../../core/errors.js';
import { MAX_TIMER_MS } from '../../core/options/duration.js';
import { TimedOut } from '../../storage/postgres/connection.js';

/** The lease ended before the settle. Another process may run the row, so this run is rolled back. */
export class LeaseLost extends WebhookInboxError {
  constructor() {
    super('LEASE_LOST', 'the lease ended before the run did');
  }
}

/** An AbortSignal that fires when the time is up, or when `abort` is called; `end` when the work has ended. */
export class Deadline {
  private readonly controller = new AbortController();
  private timer: NodeJS.Timeout | undefined;

  /** @param timeoutMs undefined for one that only `abort` fires, until `limit` is called */
  constructor(
    private readonly what: string,
    timeoutMs?: number,
  ) {
    if (timeoutMs !== undefined) this.limit(timeoutMs);
  }

  /** From now on. */
  limit(timeoutMs: number): void {
    this.timer = setTimeout(
      () => this.abort(new TimedOut(this.what, timeoutMs)),
      Math.min(timeoutMs, MAX_TIMER_MS),
    );
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  abort(reason: Error): void {
    this.controller.abort(reason);
  }

  end(): void {
    clearTimeout(this.timer);
  }
}
