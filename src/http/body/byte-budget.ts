import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';

/** How long a refused source counts as waiting. Its senders were asked to come again after 5 s. */
const WAITS_MS = 5_000;

/** A search through all bodies for answered ones is followed by a rest of so many times its own length. */
const REST = 10;

/** The functions of a body that the budget calls. */
export interface HeldBody {
  readonly isAnswered: boolean;
  /** Called when others need its room; its bytes are given back by then. */
  giveUp(): void;
}

/** The bytes that the bodies of one source hold, or those of them that one address sends. */
class Share {
  bytes = 0;
  /** Bodies that are counted. */
  bodies = 0;
  waitsUntil = -Infinity;
  /** Bodies that have not come to their end, the oldest first. These can be given up. */
  readonly arriving = new Set<Holding>();
  /** Shares of a source's addresses. */
  readonly parts = new Map<string, Share>();

  static of(among: Map<string, Share>, key: string): Share {
    let share = among.get(key);
    if (share === undefined) among.set(key, (share = new Share()));
    return share;
  }
}

/** The bytes of one body, counted from the first of them to its answer, and to the end of all work with them. */
export class Holding {
  /** That of its source, and that of its sender in it. */
  shares!: readonly [Share, Share];
  private bytes = 0;
  private works = 0;
  private isArriving = true;
  private isCounted = false;
  /** Nothing more is taken: the body was answered, refused or given up. */
  private isClosed = false;

  constructor(
    private readonly budget: ByteBudget,
    private readonly source: string,
    private readonly address: string,
    private readonly body: HeldBody,
  ) {
    this.enter();
    for (const share of this.shares) share.arriving.add(this);
  }

  /** False when there is no room for them, or nothing more is taken. */
  take(bytes: number): boolean {
    if (this.isClosed || !this.budget.makeRoom(this, bytes)) return false;
    // To make room, this very body may have been given up.
    this.change(bytes);
    return true;
  }

  giveBack(bytes: number): void {
    this.change(-bytes);
  }

  /** All of the body is here: it is not given up for others any more. */
  markArrived(): void {
    this.isArriving = false;
    for (const share of this.shares) share.arriving.delete(this);
    this.budget.slow.delete(this);
  }

  /** @param isSlow whether it is among the first to be given up */
  markSlow(isSlow: boolean): void {
    if (isSlow && this.isArriving) this.budget.slow.add(this);
    else this.budget.slow.delete(this);
  }

  get isAnswered(): boolean {
    return this.body.isAnswered;
  }

  giveUp(): void {
    this.close();
    this.body.giveUp();
  }

  /** Keeps the bytes counted until `work` has ended, also when the answer comes before. */
  during<T>(work: Promise<T>): Promise<T> {
    // The host may begin with bodies that were answered already.
    if (!this.isCounted) this.enter();
    this.works += 1;
    const end = () => {
      this.works -= 1;
      this.leaveIfOver();
    };
    work.then(end, end);
    return work;
  }

  /** The body was answered, or its sender has gone. */
  close(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    this.budget.holdings.delete(this);
    this.markArrived();
    this.leaveIfOver();
  }

  private leaveIfOver(): void {
    if (!this.isClosed || this.works > 0 || !this.isCounted) return;
    this.isCounted = false;
    this.count(-this.bytes);
    for (const share of this.shares) share.bodies -= 1;
    const [source, sender] = this.shares;
    // Anyone may come from a million addresses.
    if (sender.bodies === 0) source.parts.delete(this.address);
  }

  private enter(): void {
    this.shares = this.budget.sharesOf(this.source, this.address);
    this.isCounted = true;
    for (const share of this.shares) share.bodies += 1;
    this.count(this.bytes);
  }

  private change(bytes: number): void {
    this.bytes += bytes;
    if (this.isCounted) this.count(bytes);
  }

  private count(bytes: number): void {
    this.budget.heldBytes += bytes;
    for (const share of this.shares) share.bytes += bytes;
  }
}

/**
 * The bytes of bodies that may be in memory at once. A body beyond it is answered 503, so that the process has enough memory. One source
 * may use all of it. When it is full, it gives up bodies that are still arriving. The order is: a body that comes slowly, the oldest of the
 * source that holds the most, the oldest of that source's address with the most. A source or an address never loses a body to one that
 * holds more.
 */
@Injectable()
export class ByteBudget {
  heldBytes = 0;
  /** Bodies that have brought next to nothing lately, the longest such first. */
  readonly slow = new Set<Holding>();
  readonly holdings = new Set<Holding>();
  private readonly sources = new Map<string, Share>();
  /** On the monotonic clock. */
  private restsUntil = -Infinity;
  /** Until when some source counts as waiting, on the monotonic clock. */
  private waitsUntil = -Infinity;

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  /** The holding of a body that begins to arrive. */
  open(source: string, address: string, body: HeldBody): Holding {
    const holding = new Holding(this, source, address, body);
    this.holdings.add(holding);
    return holding;
  }

  /** The shares that a body counts for: its source's, and its sender's in it. */
  sharesOf(source: string, address: string): readonly [Share, Share] {
    const whole = Share.of(this.sources, source);
    return [whole, Share.of(whole.parts, address)];
  }

  /** False when there is no room, and none can be made. */
  makeRoom(holding: Holding, bytes: number): boolean {
    const [source, sender] = holding.shares;
    if (performance.now() < this.waitsUntil && this.isBeyondShare(source, bytes)) return false;
    if (this.heldBytes + bytes > this.options.byteBudget) this.clearAnswered();
    while (this.heldBytes + bytes > this.options.byteBudget) {
      const victim = this.victimFor(source, sender, bytes);
      victim?.giveUp();
      if (victim !== undefined && victim !== holding) continue;
      this.wait(source, bytes);
      return false;
    }
    return true;
  }

  /**
   * Gives up bodies whose answers wait to be read. A sender that pipelines requests and reads no answer could hold the whole budget for as
   * long as its connection lasts. With any number of bodies, the search takes a tenth of the time at most.
   */
  private clearAnswered(): void {
    const began = performance.now();
    if (began < this.restsUntil) return;
    for (const holding of this.holdings) if (holding.isAnswered) holding.giveUp();
    const ended = performance.now();
    this.restsUntil = ended + REST * (ended - began);
  }

  private victimFor(source: Share, sender: Share, bytes: number): Holding | undefined {
    const [slow] = this.slow;
    if (slow !== undefined) return slow;
    const largest = largestOf(this.sources, source, source.bytes + bytes);
    if (largest !== source) return oldestOf(largestOf(largest.parts, largest, 0));
    const loudest = largestOf(source.parts, sender, sender.bytes + bytes);
    return loudest === sender ? undefined : oldestOf(loudest);
  }

  /**
   * While another source waits, a source may not grow beyond an equal part. Bodies that are complete are not given up, so that the
   * room of the source that waits must come from the answers of the others.
   */
  private isBeyondShare(source: Share, bytes: number): boolean {
    const now = performance.now();
    const others = [...this.sources.values()].filter((one) => one !== source);
    return others.some(({ waitsUntil }) => waitsUntil > now) && source.bytes + bytes > this.part(source, now);
  }

  /** A source that has its part already does not wait for more. */
  private wait(source: Share, bytes: number): void {
    const now = performance.now();
    if (source.bytes + bytes > this.part(source, now)) return;
    this.waitsUntil = source.waitsUntil = now + WAITS_MS;
  }

  /** An equal part of the budget for each source that holds or waits. */
  private part(source: Share, now: number): number {
    const others = [...this.sources.values()].filter(
      (one) => one !== source && (one.bytes > 0 || one.waitsUntil > now),
    );
    return this.options.byteBudget / (1 + others.length);
  }
}

/** The share with the most bytes, if they are more than `bytes` and a body of it can be given up; else `own`. */
function largestOf(shares: ReadonlyMap<string, Share>, own: Share, bytes: number): Share {
  let largest = own;
  let most = bytes;
  for (const share of shares.values()) {
    if (share === own || share.arriving.size === 0 || share.bytes <= most) continue;
    largest = share;
    most = share.bytes;
  }
  return largest;
}

function oldestOf({ arriving }: Share): Holding | undefined {
  const [oldest] = arriving;
  return oldest;
}
