import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { isWholeDatabases } from '../core/classify.js';
import { WebhookInboxError } from '../core/errors.js';
import { neutral } from '../core/neutral.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { poolSize } from '../storage/postgres/connection.js';
import { Claimer, type ClaimedDelivery, type Delivered } from './claimer.js';

/**
 * One commit at a time has the largest batches, and costs least. A second goes beside one that takes long: it may wait for a key that
 * another transaction holds. Measured in docs/performance.md.
 */
const COMMITS_IN_FLIGHT = 2;
const LONG_MS = 20;
const MAX_ROWS = 100;
const MAX_BYTES = 4 * 1024 * 1024;

interface Waiting extends Queued {
  readonly delivered: Delivered;
  /** When its answer has been given without it, on the monotonic clock. */
  readonly answeredAt: number;
  readonly resolve: (claimed: ClaimedDelivery) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Commits the claims of many deliveries together. No timer fills a batch. A delivery that finds a commit free goes at once, and those that
 * arrive meanwhile go with the next. So the busier the receiver, the more events share a commit. A batch that fails is tried again, each
 * delivery alone.
 */
@Injectable()
export class GroupCommit {
  private readonly queue = new FairQueue<Waiting>();
  private readonly sending = new Set<Promise<void>>();
  private readonly inFlight: number;
  /** A commit waits for a connection. `take` ends that: when there is one, or when the commit has failed without one. */
  private opening = false;
  /** When the last commit was begun, on the monotonic clock. */
  private sentAt = 0;
  /** Sends the queue when that commit has become a long one, in case nothing else arrives. */
  private later: NodeJS.Timeout | undefined;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claimer: Claimer,
  ) {
    this.inFlight = Math.max(1, Math.min(COMMITS_IN_FLIGHT, poolSize(dataSource) - 1));
  }

  /** Claims what a delivery brought; resolves once it is committed. */
  claim(delivered: Delivered): Promise<ClaimedDelivery> {
    if (!this.options.groupCommit) return this.claimAlone(delivered);
    return new Promise((resolve, reject) => {
      const { claims, source } = delivered;
      let bytes = 0;
      for (const { event } of claims) bytes += event.body.length;
      this.dropAnswered();
      if (!this.queue.isEmpty && this.queue.bytes + bytes > this.options.byteBudget) {
        reject(new TooMuchWaits());
        return;
      }
      const answeredAt = performance.now() + this.options.claimTimeoutMs;
      const key = source.name;
      this.queue.add({ delivered, key, rows: claims.length, bytes, answeredAt, resolve, reject });
      this.send();
    });
  }

  /** Waits for what is queued and under way, up to the time in which all of it has been answered. */
  async finish(): Promise<void> {
    const end = performance.now() + this.options.claimTimeoutMs;
    while (this.sending.size > 0 && performance.now() < end) await Promise.race(this.sending);
  }

  private send(): void {
    if (this.opening || this.queue.isEmpty || this.sending.size >= this.inFlight) return;
    const untilLongMs = this.sentAt + LONG_MS - performance.now();
    if (this.sending.size > 0 && this.queue.rows < MAX_ROWS && untilLongMs > 0) {
      this.sendLater(untilLongMs);
      return;
    }
    this.opening = true;
    this.sentAt = performance.now();
    // All deliveries of the commit share it, although the first has begun it.
    const sent: Promise<void> = neutral(() => this.commit()).finally(() => {
      this.sending.delete(sent);
      this.send();
    });
    this.sending.add(sent);
  }

  private sendLater(ms: number): void {
    const send = () => {
      this.later = undefined;
      this.send();
    };
    this.later ??= neutral(() => setTimeout(send, ms)).unref();
  }

  private async commit(): Promise<void> {
    const { claimTimeoutMs } = this.options;
    let batch: Waiting[] | undefined;
    try {
      const claimed = await this.claimer.claimTogether(
        // The claimer calls this once, when it has a connection. Deliveries that came until then go along.
        () => {
          batch = this.take();
          return batch.map(({ delivered }) => delivered);
        },
        // A key that another transaction holds keeps its own delivery waiting, not the batch.
        { lockTimeoutMs: claimTimeoutMs / 10, endAfterMs: claimTimeoutMs },
      );
      for (const [index, { resolve }] of batch!.entries()) resolve(claimed[index]!);
    } catch (error) {
      this.claimEachAlone(batch ?? this.take(), error);
    }
  }

  private take(): Waiting[] {
    this.dropAnswered();
    const batch = this.queue.take(MAX_ROWS, MAX_BYTES);
    this.opening = false;
    this.send();
    return batch;
  }

  /** Claims each delivery alone, outside the batches. The one at fault gets its error, and the others do not wait for it. */
  private claimEachAlone(batch: readonly Waiting[], error: unknown): void {
    for (const { delivered, resolve, reject } of batch) {
      if (isWholeDatabases(error)) reject(error);
      else this.claimAlone(delivered, true).then(resolve, reject);
    }
  }

  /** @param triedBefore in a batch, whose COMMIT may have gone through */
  private async claimAlone(delivered: Delivered, triedBefore = false): Promise<ClaimedDelivery> {
    const { claimTimeoutMs } = this.options;
    const limits = { lockTimeoutMs: claimTimeoutMs, endAfterMs: 2 * claimTimeoutMs };
    const [claimed] = await this.claimer.claimTogether(() => [delivered], limits, triedBefore);
    return claimed!;
  }

  /** A database that hangs must not fill the memory with deliveries that were answered already. */
  private dropAnswered(): void {
    const now = performance.now();
    for (const { reject } of this.queue.drop(({ answeredAt }) => answeredAt <= now)) {
      reject(new TooMuchWaits());
    }
  }
}

/** A delivery was turned away before anything of it was sent to the database. */
export class TooMuchWaits extends WebhookInboxError {
  constructor() {
    super('CLAIMS_QUEUED', 'claims arrive faster than the database commits them');
  }
}

/** An item of a `FairQueue`. */
export interface Queued {
  /** Whose it is: each has its turn. */
  readonly key: string;
  readonly rows: number;
  readonly bytes: number;
}

/** A queue with one line for each source, served in turn. A source that floods waits behind itself. */
export class FairQueue<T extends Queued> {
  private readonly queues = new Map<string, T[]>();
  private heldBytes = 0;
  private heldRows = 0;

  get bytes(): number {
    return this.heldBytes;
  }

  get rows(): number {
    return this.heldRows;
  }

  get isEmpty(): boolean {
    return this.queues.size === 0;
  }

  add(item: T): void {
    const queue = this.queues.get(item.key);
    if (queue === undefined) this.queues.set(item.key, [item]);
    else queue.push(item);
    this.heldBytes += item.bytes;
    this.heldRows += item.rows;
  }

  /** Takes one item of each line in turn, while rows and bytes are within the limits. It takes at least one, if there is any. */
  take(maxRows: number, maxBytes: number): T[] {
    const taken: T[] = [];
    let rows = 0;
    let bytes = 0;
    // A line that was served moves to the end of the map, and this loop comes to it again.
    for (const [name, [first]] of this.queues) {
      rows += first!.rows;
      bytes += first!.bytes;
      if (taken.length > 0 && (rows > maxRows || bytes > maxBytes)) break;
      taken.push(this.shift(name));
    }
    return taken;
  }

  /** Takes items from the front of each line that are `isOver`. */
  drop(isOver: (item: T) => boolean): T[] {
    const dropped: T[] = [];
    for (const [name, [first]] of this.queues) {
      if (isOver(first!)) dropped.push(this.shift(name));
    }
    return dropped;
  }

  private shift(name: string): T {
    const queue = this.queues.get(name)!;
    const item = queue.shift()!;
    this.heldBytes -= item.bytes;
    this.heldRows -= item.rows;
    // Out of the map and in again: the next turn begins with another queue.
    this.queues.delete(name);
    if (queue.length > 0) this.queues.set(name, queue);
    return item;
  }
}
