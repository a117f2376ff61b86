/** What waits in a `FairQueue`. */
export interface Queued {
  /** Whose it is: each has its turn. */
  readonly lane: string;
  readonly rows: number;
  readonly bytes: number;
}

/** A queue with a lane for each source, taken from in turn: whoever floods waits behind himself. */
export class FairQueue<T extends Queued> {
  private readonly lanes = new Map<string, T[]>();
  private heldBytes = 0;
  private heldRows = 0;

  get bytes(): number {
    return this.heldBytes;
  }

  get rows(): number {
    return this.heldRows;
  }

  get isEmpty(): boolean {
    return this.lanes.size === 0;
  }

  add(item: T): void {
    const lane = this.lanes.get(item.lane);
    if (lane === undefined) this.lanes.set(item.lane, [item]);
    else lane.push(item);
    this.heldBytes += item.bytes;
    this.heldRows += item.rows;
  }

  /** One of each lane in turn, while rows and bytes are within the limits; at least one, if there is any. */
  take(maxRows: number, maxBytes: number): T[] {
    const taken: T[] = [];
    let rows = 0;
    let bytes = 0;
    // A lane that was taken from is met again at the end, by this very loop.
    for (const [name, [first]] of this.lanes) {
      rows += first!.rows;
      bytes += first!.bytes;
      if (taken.length > 0 && (rows > maxRows || bytes > maxBytes)) break;
      taken.push(this.shift(name));
    }
    return taken;
  }

  /** Takes from the front of each lane what `isOver`. */
  drop(isOver: (item: T) => boolean): T[] {
    const dropped: T[] = [];
    for (const [name, [first]] of this.lanes) {
      if (isOver(first!)) dropped.push(this.shift(name));
    }
    return dropped;
  }

  private shift(name: string): T {
    const lane = this.lanes.get(name)!;
    const item = lane.shift()!;
    this.heldBytes -= item.bytes;
    this.heldRows -= item.rows;
    // Out of the map and in again: the next turn begins with another lane.
    this.lanes.delete(name);
    if (lane.length > 0) this.lanes.set(name, lane);
    return item;
  }
}
