import { Injectable, type OnModuleDestroy } from '@nestjs/common';
import { isOutOfOrder, retryAfterHeader } from '../../core/classify.js';
import { storable } from '../../core/event.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import type { Rate } from '../../core/options/rate.js';
import { Alerts } from '../../core/telemetry/alerts.js';
import { EndpointGone } from '../../effects/webhook-effect.js';
import type { Effect } from '../../handlers/handler.registry.js';
import { DestinationStore, type DestinationState } from '../../storage/destination.store.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { MAX_INT4 } from '../slots/shares.js';
import { rowFacts } from '../relay/row-facts.js';
import { WakeUp } from '../wake/wake-up.js';
import { LoneStatements } from './lone-statements.js';

/** A destination that fails, or has asked to wait, as this process knows it. Times are of the monotonic clock. */
interface Known {
  readonly open: boolean;
  readonly notBefore: number;
}

/** The tokens of a rate, as of its last statement. Each row that is put off gets a time of its own, up to `nextAt`. */
interface Bucket {
  readonly asking: ((got: boolean) => void)[];
  busy: boolean;
  tokens: number;
  at: number;
  nextAt: number;
}

/** As `webhook_destination.name` holds them. */
const MAX_NAME_BYTES = 512;
/** Of rows that wait for the end of a probe. */
const PROBE_WAIT_MS = 2_000;
/** A row comes back so soon at least: a person may have resumed its destination, or another instance have used less of the rate. */
const MAX_PUT_OFF_MS = 10 * 60_000;
/** A probe that never ends is followed by another after its time-out and so long. */
const PROBE_GRACE_MS = 5_000;

/**
 * Whether the destination of an effect may be called now. It knows what all instances know (`webhook_destination`), and asks the
 * database only for a destination that has a rate, or that has failed.
 */
@Injectable()
export class Destinations implements OnModuleDestroy {
  /** How often this process has changed what is known. */
  changes = 0;
  private readonly logger = new InboxLogger();
  private known = new Map<string, Known>();
  private readonly buckets = new Map<string, Bucket>();
  private readonly timers = new Map<string, { readonly timer: NodeJS.Timeout; readonly at: number }>();

  constructor(
    private readonly store: DestinationStore,
    private readonly statements: LoneStatements,
    private readonly alerts: Alerts,
    private readonly wakeUp: WakeUp,
  ) {}

  onModuleDestroy(): void {
    for (const { timer } of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
  }

  /**
   * Takes over the states that all instances share.
   * @param changes the value of `changes` when the query was sent; an older answer is ignored
   */
  learn(states: readonly DestinationState[], changes: number): void {
    if (changes !== this.changes) return;
    this.known = new Map(states.map((state) => [state.name, knownOf(state)]));
  }

  /** How many rows of an effect are worth a lease now. */
  room(effect: Effect): number {
    if (effect.options.destination !== undefined) return MAX_INT4;
    const now = performance.now();
    const known = this.known.get(effect.name);
    if (known !== undefined && known.notBefore > now) return 0;
    if (known?.open === true) return 1;
    if (effect.rate === undefined) return MAX_INT4;
    const tokens = this.tokens(effect.name, effect.rate, now);
    if (tokens < 1) this.wakeAfter(effect, ((1 - tokens) / effect.rate.perSecond) * 1_000);
    return Math.floor(tokens);
  }

  /** The destination of a row, if it is not simply called. @throws what the effect's function throws */
  of(effect: Effect, payload: unknown): string | undefined {
    const name = this.nameOf(effect, payload);
    return effect.rate !== undefined || this.known.has(name) ? name : undefined;
  }

  /** Milliseconds for which the row is put off; undefined when its destination may be called. */
  async admit(effect: Effect, name: string, row: LeasedRow): Promise<number | undefined> {
    const wait = await this.waitBefore(effect, name, row);
    if (wait !== undefined || effect.rate === undefined || (await this.take(name, effect.rate)))
      return wait && Math.min(Math.max(wait, 50), MAX_PUT_OFF_MS);
    const now = performance.now();
    const bucket = this.bucket(name, effect.rate);
    const pace = 1_000 / effect.rate.perSecond;
    // One after the other, at the rate: rows that all came back at once would be put off again.
    bucket.nextAt = Math.max(bucket.nextAt, now + (1 - this.tokens(name, effect.rate, now)) * pace);
    const putOff = Math.min(bucket.nextAt - now, MAX_PUT_OFF_MS);
    bucket.nextAt += pace;
    this.wakeAfter(effect, putOff);
    return putOff;
  }

  private async waitBefore(effect: Effect, name: string, row: LeasedRow): Promise<number | undefined> {
    const known = this.known.get(name);
    if (known === undefined) return undefined;
    const wait = known.notBefore - performance.now();
    if (wait > 0 || !known.open) return wait > 0 ? wait : undefined;
    const forMs = effect.timeoutMs + PROBE_GRACE_MS;
    const other = await this.statements.send((manager) => this.store.takeProbe(manager, name, row.id, forMs));
    if (other === undefined) return undefined;
    const putOff = Math.min(other, PROBE_WAIT_MS);
    this.remember(name, { open: true, notBefore: performance.now() + putOff });
    return putOff;
  }

  /** After a call that has ended well, or with an answer that says that the other side works. */
  async recordAnswer(effect: Effect, row: LeasedRow, payload: unknown): Promise<void> {
    if (this.known.size === 0) return;
    await this.quietly(row, async () => {
      const name = this.nameOf(effect, payload);
      if (!this.known.has(name)) return;
      const wasOpen = await this.statements.send((manager) => this.store.recordAnswer(manager, name));
      this.remember(name, undefined);
      if (!wasOpen) return;
      this.logger.log(logLine('destination works again', { destination: name, effect: effect.name }));
      this.wakeUp.wake([effect.name, ...effect.was]);
    });
  }

  /** After a call that has failed. */
  async recordFailure(effect: Effect, row: LeasedRow, payload: unknown, error: unknown): Promise<void> {
    const gone = error instanceof EndpointGone && effect.options.destination !== undefined;
    const retryAfterMs = retryAfterHeader(error);
    const outOfOrder = isOutOfOrder(error);
    if (outOfOrder === false && !gone) return this.recordAnswer(effect, row, payload);
    if (!gone && outOfOrder !== true) return;
    if (!gone && effect.opensAfter === undefined && retryAfterMs === undefined) return;
    await this.quietly(row, async () => {
      const name = this.nameOf(effect, payload);
      const { opensAfter } = effect;
      const failure = { outboxId: row.id, error: errorText(error), opensAfter, retryAfterMs, gone };
      const state = await this.statements.send((manager) => this.store.recordFailure(manager, name, failure));
      this.remember(name, knownOf(state));
      if (!state.opened) return;
      const { failures } = state;
      const reason = gone ? 'gone' : 'failing';
      this.alerts.raise({ kind: 'destination-open', name, failures, reason, error: failure.error });
    });
  }

  private nameOf(effect: Effect, payload: unknown): string {
    const name: unknown = effect.options.destination?.call(effect.instance, payload);
    return typeof name === 'string' && name !== '' ? storable(name, MAX_NAME_BYTES) : effect.name;
  }

  private remember(name: string, known: Known | undefined): void {
    this.changes += 1;
    if (known === undefined) this.known.delete(name);
    else this.known.set(name, known);
  }

  /** A state that is recorded late only delays a call or allows one more. The row itself is settled by then. */
  private async quietly(row: LeasedRow, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.logger.warn(
        logLine(`the state of a destination was not recorded: ${errorText(error)}`, rowFacts(row)),
      );
    }
  }

  /** Rows that ask together are answered by one statement. */
  private async take(name: string, rate: Rate): Promise<boolean> {
    const bucket = this.bucket(name, rate);
    const got = new Promise<boolean>((resolve) => bucket.asking.push(resolve));
    if (!bucket.busy) await this.answerAll(name, rate, bucket);
    return got;
  }

  private async answerAll(name: string, rate: Rate, bucket: Bucket): Promise<void> {
    bucket.busy = true;
    try {
      // Those of one lease begin in one turn.
      await Promise.resolve();
      while (bucket.asking.length > 0) {
        const wanted = bucket.asking.length;
        const take = this.statements.send((manager) => this.store.take(manager, name, rate, wanted));
        const { taken, tokens } = await take;
        Object.assign(bucket, { tokens, at: performance.now() });
        for (const [index, answer] of bucket.asking.splice(0, wanted).entries()) answer(index < taken);
      }
    } finally {
      bucket.busy = false;
      // After a failure: they are put off, since without the database no call could be settled.
      for (const answer of bucket.asking.splice(0)) answer(false);
    }
  }

  private bucket(name: string, { burst }: Rate): Bucket {
    const known = this.buckets.get(name);
    if (known !== undefined) return known;
    // Drops the oldest bucket. Its tokens are read again when they are needed.
    if (this.buckets.size >= 10_000) this.buckets.delete(this.buckets.keys().next().value!);
    const bucket = { asking: [], busy: false, tokens: burst, at: performance.now(), nextAt: 0 };
    this.buckets.set(name, bucket);
    return bucket;
  }

  private tokens(name: string, rate: Rate, now: number): number {
    const { tokens, at } = this.bucket(name, rate);
    return Math.min(rate.burst, tokens + ((now - at) / 1_000) * rate.perSecond);
  }

  /** Polling would find the rows of a fast rate too late. */
  private wakeAfter({ name, was }: Effect, ms: number): void {
    const at = performance.now() + ms;
    const set = this.timers.get(name);
    if (set !== undefined && set.at <= at) return;
    clearTimeout(set?.timer);
    const fire = () => {
      this.timers.delete(name);
      this.wakeUp.wakeOwn([name, ...was]);
    };
    this.timers.set(name, { at, timer: setTimeout(fire, Math.ceil(ms) + 1).unref() });
  }
}

const knownOf = ({ open, waitMs }: DestinationState): Known => ({
  open,
  notBefore: waitMs > 0 ? performance.now() + waitMs : 0,
});
