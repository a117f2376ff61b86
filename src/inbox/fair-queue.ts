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
