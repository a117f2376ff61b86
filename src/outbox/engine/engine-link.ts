import type { EffectMessage, EffectTransport } from '../../core/options/effect-transport.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { Outage } from '../../core/log/outage.js';
import { withTimeLimit } from '../../core/time/waits.js';
import type { LeasedRow } from '../../storage/leased-rows.js';

const MAX_MESSAGES = 100;
const MAX_IN_FLIGHT = 2;
const MAX_PAUSE_MS = 30_000;
/** An engine that has not confirmed by then counts as down. The time of an effect's own calls says nothing about an engine. */
const PUBLISH_MS = 20_000;
/** The whole hand-over of a row, with its statements. */
export const HAND_OVER_MS = 30_000;

/** A leased row on its way to the engine. */
export interface Parcel {
  readonly row: LeasedRow;
  readonly message: EffectMessage;
}

/** `handed` is false where the lease was lost meanwhile. */
export type Delivered = { readonly handed: boolean } | { readonly error: Error };

interface Waiting extends Parcel {
  readonly resolve: (delivered: Delivered) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * This process's way to one engine. Messages of one moment share a call of the transport, and the rows that the engine confirms share a
 * statement. An engine that is down is spared.
 */
export class EngineLink {
  private readonly logger = new InboxLogger();
  private readonly outage = new Outage();
  private waiting: Waiting[] = [];
  private inFlight = 0;
  private failures = 0;
  private notBefore = -Infinity;

  /**
   * @param begin records that the engine may have the rows from now on, and returns the ids of those whose lease still holds
   * @param settle records that the engine has the rows, and returns the ids of those whose lease still held
   */
  constructor(
    private readonly transport: EffectTransport,
    private readonly begin: (rows: readonly LeasedRow[]) => Promise<ReadonlySet<string>>,
    private readonly settle: (rows: readonly LeasedRow[]) => Promise<ReadonlySet<string>>,
  ) {}

  /** How many messages are worth a lease now: while the engine is down, one at a time. */
  get room(): number {
    if (this.failures === 0) return Number.MAX_SAFE_INTEGER;
    return performance.now() < this.notBefore ? 0 : 1;
  }

  /** @throws the error of a statement: after the publish, the engine has the message, and the row does not say so */
  deliver(parcel: Parcel): Promise<Delivered> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ ...parcel, resolve, reject });
      // Those of one lease begin in one turn of the event loop.
      if (this.waiting.length === 1) setImmediate(() => this.send());
    });
  }

  private send(): void {
    while (this.inFlight < MAX_IN_FLIGHT && this.waiting.length > 0) {
      this.inFlight += 1;
      void this.deliverAll(this.waiting.splice(0, MAX_MESSAGES)).finally(() => {
        this.inFlight -= 1;
        this.send();
      });
    }
  }

  private async deliverAll(all: readonly Waiting[]): Promise<void> {
    try {
      // A row that was given back while it waited here is published by its next lease, unless it is cancelled or erased before.
      const ours = await this.begin(all.map(({ row }) => row));
      for (const { row, resolve } of all) if (!ours.has(row.id)) resolve({ handed: false });
      const batch = all.filter(({ row }) => ours.has(row.id));
      if (batch.length > 0) await this.deliverOurs(batch);
    } catch (error) {
      for (const { reject } of all) reject(error);
    }
  }

  private async deliverOurs(batch: readonly Waiting[]): Promise<void> {
    const errors = await this.publish(batch);
    const confirmed = batch.filter((_, index) => errors[index] === undefined);
    if (confirmed.length > 0) this.recordSuccess();
    else this.recordFailure(errors[0]!);
    for (const [index, { resolve }] of batch.entries()) {
      const error = errors[index];
      if (error !== undefined) resolve({ error });
    }
    if (confirmed.length === 0) return;
    // Only now: a row that says so before would be forgotten where the engine did not get it.
    const handed = await this.settle(confirmed.map(({ row }) => row));
    for (const { row, resolve } of confirmed) resolve({ handed: handed.has(row.id) });
  }

  /** The answer for each message; the error for all where the transport gave none. */
  private async publish(batch: readonly Waiting[]): Promise<readonly (Error | undefined)[]> {
    try {
      const publishing = this.transport.publish(batch.map(({ message }) => message));
      const errors = await withTimeLimit(publishing, PUBLISH_MS, `publish to ${this.transport.name}`);
      if (errors.length === batch.length) return errors;
      throw new Error(`expected an answer for each of ${batch.length} messages, received ${errors.length}`);
    } catch (error) {
      return batch.map(() => (error instanceof Error ? error : new Error(String(error))));
    }
  }

  private recordSuccess(): void {
    this.failures = 0;
    const over = this.outage.recordSuccess();
    if (over !== undefined) this.logger.log(logLine(`engine ${this.transport.name} works again`, over));
  }

  private recordFailure(error: Error): void {
    const pauseMs = Math.min(MAX_PAUSE_MS, 500 * 2 ** this.failures);
    this.failures = Math.min(this.failures + 1, 16);
    this.notBefore = performance.now() + pauseMs;
    if (!this.outage.recordFailure()) return;
    const text = `engine ${this.transport.name} does not take effects, which wait: ${errorText(error)}`;
    this.logger.warn(logLine(text, { again: `in ${pauseMs} ms` }));
  }
}
