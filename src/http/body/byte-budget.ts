import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { Holding, largestOf, oldestOf, Share, type HeldBody } from './holding.js';

/** How long a refused source counts as waiting. Its senders were asked to come again after 5 s. */
const WAITS_MS = 5_000;

/** A search through all bodies for answered ones is followed by a rest of so many times its own length. */
const REST = 10;

/**
 * The bytes of bodies that may be in memory at once. A body beyond it is answered 503, so that the process has enough memory. One source
 * may use all of it. When it is full, it gives up bodies that are still arriving. The order is: a body that comes slowly, the oldest of the
 * source that holds the most, the oldest of that source's address with the most. A source or an address never loses a body to one that
 * holds more.
 */
@Injectable()
export class ByteBudget {
  private used = 0;
  private readonly sources = new Map<string, Share>();
  /** Bodies that have brought next to nothing lately, the longest such first. */
  private readonly slow = new Set<Holding>();
  private readonly holdings = new Set<Holding>();
  /** On the monotonic clock. */
  private restsUntil = -Infinity;
  /** Until when some source counts as waiting, on the monotonic clock. */
  private waitsUntil = -Infinity;

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  get heldBytes(): number {
    return this.used;
  }

  /** The holding of a body that begins to arrive. */
  open(source: string, address: string, body: HeldBody): Holding {
    const holding = new Holding(this, source, address, body);
    this.holdings.add(holding);
    return holding;
  }

  release(holding: Holding): void {
    this.holdings.delete(holding);
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
    if (this.used + bytes > this.options.byteBudget) this.clearAnswered();
    while (this.used + bytes > this.options.byteBudget) {
      const victim = this.victimFor(source, sender, bytes);
      victim?.giveUp();
      if (victim !== undefined && victim !== holding) continue;
      this.wait(source, bytes);
      return false;
    }
    return true;
  }

  count(bytes: number): void {
    this.used += bytes;
  }

  /** @param isSlow whether it is among the first to be given up */
  markSlow(holding: Holding, isSlow: boolean): void {
    if (isSlow) this.slow.add(holding);
    else this.slow.delete(holding);
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
