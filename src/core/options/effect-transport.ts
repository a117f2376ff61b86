import type { DeadReason } from '../states.js';

/** An effect on its way to an engine. It carries what a consumer needs to run the effect, and no other row of the outbox. */
export interface EffectMessage {
  /** The outbox id. The effect's idempotency key, the same at each attempt and after a revival. */
  readonly id: string;
  /**
   * The id by which the engine refuses a duplicate. It is the outbox id in the row's first life. After a person has revived the row it
   * differs, so that an engine which still remembers the first one takes the second.
   */
  readonly messageId: string;
  /** The attempt at which the row was last revived, or 0. A report of a former life does not end this one. */
  readonly life: number;
  /** The effect's name. */
  readonly effect: string;
  /** The frozen payload, as JSON text. */
  readonly payload: string;
  /** Messages with one order key run one after the other, in the order of their publishing. Only for a transport that keeps order. */
  readonly orderKey?: string;
  /** The event that the effect comes from. An effect enqueued outside a handler has none. */
  readonly event?: { readonly source: string; readonly tenant: string; readonly eventId: string };
  /** W3C trace context in which it was enqueued. */
  readonly trace?: string;
  /** ISO 8601, by the clock of the relay's database: when it was first handed over, or first run by a relay. */
  readonly since?: string;
  /** An earlier attempt or an earlier copy of this message may have reached the outside world. @default false */
  readonly repeated?: boolean;
}

/** How a consumer ended its work on a message. */
export interface EngineReport {
  readonly id: string;
  readonly effect: string;
  readonly life: number;
  readonly outcome: 'done' | 'dead';
  /** Only of an effect that is dead. @default 'permanent-error' */
  readonly reason?: DeadReason;
  /** The effect's result as JSON text, where it has one. */
  readonly result?: string;
  /** Without values of the payload. Only of an effect that is dead. */
  readonly error?: string;
  /** `file:line` of the error. */
  readonly place?: string;
  /** Attempts of the consumer, the last one included. */
  readonly attempts: number;
  /** ISO 8601, by the consumer's clock. */
  readonly begunAt: string;
  readonly endedAt: string;
  /** Host of the consumer that ended it. */
  readonly host: string;
}

/** The next step of the engine with a message, after its consumer has worked on it. */
export type EngineVerdict = { readonly kind: 'ack' } | { readonly kind: 'again'; readonly delayMs: number };

/** The engine's facts about the delivery of a message to a consumer. */
export interface EngineDelivery {
  /** From 1: how often the engine has given this message to a consumer. */
  readonly attempt: number;
  /** Fires when the consumer stops, or when the engine gives the message to another consumer. */
  readonly signal: AbortSignal;
}

/** A running consumer. */
export interface Subscription {
  /** Takes no new message, and resolves when the running ones have ended or `graceMs` milliseconds have passed. */
  close(graceMs: number): Promise<void>;
}

/**
 * Carries effects to an engine, and the reports of their consumers back. The relay publishes only rows that are committed. Delivery is at
 * least once in both directions: the consumer removes duplicates by the outbox id, and a report may come twice.
 */
export interface EffectTransport {
  /** The engine, in log lines, alerts and errors: 'bullmq', 'nats', 'rabbitmq'. */
  readonly name: string;
  /** Whether messages with one `orderKey` run one after the other in the order of their publishing. */
  readonly keepsOrder: boolean;
  /**
   * Publishes messages, and resolves when the engine has confirmed or refused each one.
   * @returns for each message in its place `undefined` where the engine has it durably, or else the error. Rejects with nothing known.
   */
  publish(messages: readonly EffectMessage[]): Promise<readonly (Error | undefined)[]>;
  /**
   * Gives messages of these effects to `handle`, at most `concurrency` at once. A message is acknowledged only after `handle` has resolved
   * with `ack`. It comes again after the delay of `again`, and when `handle` rejects or the process ends. It has no limit of attempts:
   * the consumer decides.
   */
  consume(
    effects: readonly string[],
    handle: (message: EffectMessage, delivery: EngineDelivery) => Promise<EngineVerdict>,
    options: { readonly concurrency: number },
  ): Promise<Subscription>;
  /** Resolves when the engine has the report durably. */
  report(report: EngineReport): Promise<void>;
  /** Gives reports to `handle`. One is acknowledged when `handle` has resolved, and comes again when it rejects. */
  onReports(handle: (report: EngineReport) => Promise<void>): Promise<Subscription>;
  /** Ends the connections that the transport made itself. */
  close(): Promise<void>;
}
