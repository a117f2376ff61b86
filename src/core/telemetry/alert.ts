import type { EventKey } from '../event.js';
import type { DeadReason, ParkedReason } from '../states.js';

/** An alert for a person. It is given to `onAlert` and logged. An `onAlert` that fails changes nothing else. */
export type Alert =
  /**
   * A row is dead. It fires once for a row. Where the database's answer was lost, it fires some seconds later, in each process that lost
   * one. A process that is killed in between raises none: `dead-letters` counts all.
   */
  | {
      readonly kind: 'dead-letter';
      readonly outboxId: string;
      readonly name: string;
      readonly attempt: number;
      readonly reason: DeadReason;
      readonly error?: string;
      readonly event?: EventKey;
    }
  /** An effect waits for a person's decision: running it again may do it twice. */
  | {
      readonly kind: 'parked';
      readonly outboxId: string;
      readonly name: string;
      readonly attempt: number;
      readonly reason: ParkedReason;
      readonly error?: string;
      readonly event?: EventKey;
    }
  /** `skipStale` got a time more than a day in the future. The event ran, and the mark was not moved. */
  | { readonly kind: 'future-time'; readonly name: string; readonly at: string; readonly event: EventKey }
  /** At least `threshold` rows are dead. It fires again after the number has dropped below half of the threshold. */
  | { readonly kind: 'dead-letters'; readonly count: number; readonly threshold: number }
  /**
   * The same id came with other bytes (the first are kept), or known bytes under a new unsigned id. Each event once, and at most ten a
   * minute for each source.
   */
  | {
      readonly kind: 'conflict';
      readonly conflict: 'other-bytes' | 'suspected-replay';
      readonly event: EventKey;
    }
  /**
   * `count` conflicts of the last minute in this process. The provider's retries do not repeat the bytes, or someone tries. It fires again
   * after the number has dropped below half.
   */
  | {
      readonly kind: 'conflict-burst';
      readonly source: string;
      readonly count: number;
      readonly threshold: number;
    }
  /** A claim has fewer handler rows than it is owed. Cannot occur; if it does, something else wrote to the tables. */
  | { readonly kind: 'missing-rows'; readonly event: EventKey; readonly owed: number; readonly found: number }
  /** A handler's row is done, and its business record is missing. It fires once for a row. */
  | {
      readonly kind: 'missing-record';
      readonly outboxId: string;
      readonly name: string;
      readonly event: EventKey;
      readonly action: 'reprocess' | 'report';
    }
  /**
   * A handler that was done for this event ran again (replay, reconciler, revival) and would have enqueued these effects for the first
   * time. The run was rolled back. Allow them with a replay under `newEffects: 'allow'`.
   */
  | {
      readonly kind: 'new-effects-refused';
      readonly outboxId: string;
      readonly name: string;
      readonly event: EventKey;
      readonly effects: readonly string[];
    }
  /** The provider's list had `count` events that no webhook has brought; they are claimed now. */
  | { readonly kind: 'gaps-found'; readonly source: string; readonly count: number }
  /**
   * So many calls to a destination of effects failed in a row that only probes are sent to it now. Its rows wait, and go on by themselves
   * when a probe is answered. `gone`: it asked for no more calls (410), so that no probe is sent; resume it by hand.
   */
  | {
      readonly kind: 'destination-open';
      readonly name: string;
      readonly failures: number;
      readonly reason: 'failing' | 'gone';
      readonly error: string;
    }
  /**
   * So many effects were handed to an engine, and no consumer has reported their ends in time (`unheardAfter`). They are handed over again
   * under the same ids. It fires again each time that happens.
   */
  | { readonly kind: 'unheard'; readonly name: string; readonly rows: number }
  /** A provider that was to redeliver did not, so that our relay took the row. */
  | {
      readonly kind: 'not-redelivered';
      readonly outboxId: string;
      readonly name: string;
      readonly event: EventKey;
    }
  /** Rows without a handler or an effect in any running process have waited for an hour. It fires again after they were gone. */
  | { readonly kind: 'unknown-name'; readonly name: string; readonly rows: number }
  /**
   * The most overdue row has been due for `ageMs` milliseconds: there are too few relays, or none. It fires again after the age has dropped
   * below half.
   */
  | { readonly kind: 'backlog'; readonly name: string; readonly ageMs: number; readonly thresholdMs: number }
  /** `count` requests of the last minute were not believed, here alone: a wrong secret, a proxy that changes bodies, or someone who tries. */
  | {
      readonly kind: 'rejection-burst';
      readonly source: string;
      readonly count: number;
      readonly threshold: number;
    }
  /** So many deliveries of the last minutes are known events that the dedupe key is probably wrong. */
  | {
      readonly kind: 'duplicate-ratio';
      readonly source: string;
      readonly deliveries: number;
      readonly duplicates: number;
      readonly threshold: number;
    }
  /** A handler used its manager, or started a query, after it had ended; the work was not done. */
  | { readonly kind: 'manager-misused'; readonly name: string; readonly detail: string };

/** Receives alerts. The relay does not wait for it, and an error of it is logged. */
export type OnAlert = (alert: Alert) => void | Promise<void>;
