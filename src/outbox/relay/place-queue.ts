import type { Occupant } from './job.js';

/** What waits for a place. */
export interface Waiting<T extends Occupant> {
  readonly occupant: T;
  /** Takes a place, if there is one for it. */
  readonly begins: () => boolean;
  /** False: it does not begin. */
  readonly resolve: (begins: boolean) => void;
}

/** What a place hangs on: the name, and whether it is the lane's. */
const placeOf = ({ rows: [row] }: Occupant) => (row!.alone ? '' : row!.name);

/** Those that wait for a place. */
export class PlaceQueue<T extends Occupant> {
  private waiting: Waiting<T>[] = [];

  /** Resolves with true in its place, with false when it was taken out before. */
  wait(occupant: T, begins: () => boolean): Promise<boolean> {
    return new Promise((resolve) => this.waiting.push({ occupant, begins, resolve }));
  }

  /** Takes out those that `leaves` says, and gives them back. */
  take(leaves: (occupant: T) => boolean): T[] {
    const taken = this.waiting.filter(({ occupant }) => leaves(occupant));
    this.waiting = this.waiting.filter((one) => !taken.includes(one));
    for (const { resolve } of taken) resolve(false);
    return taken.map(({ occupant }) => occupant);
  }

  /**
   * Has those begin that find a place: the lane's row has waited for its turn already; of the others, one whose name has the fewest
   * running comes first.
   */
  fill(occupants: () => readonly Occupant[]): void {
    if (this.waiting.length === 0) return;
    const running = new Map<string, number>();
    for (const { begun, rows } of occupants())
      if (begun) running.set(rows[0]!.name, (running.get(rows[0]!.name) ?? 0) + 1);
    const rank = ({ rows: [row] }: Occupant) => (row!.alone ? -1 : (running.get(row!.name) ?? 0));
    const inOrder = this.waiting.toSorted((a, b) => rank(a.occupant) - rank(b.occupant));
    // A name that has no place for one row has none for the next: of a hundred that wait, two are asked about.
    const full = new Set<string>();
    const begun = new Set<Waiting<T>>();
    for (const one of inOrder) {
      const place = placeOf(one.occupant);
      if (full.has(place)) continue;
      if (one.begins()) begun.add(one);
      else full.add(place);
    }
    this.waiting = this.waiting.filter((one) => !begun.has(one));
    for (const { resolve } of begun) resolve(true);
  }
}
