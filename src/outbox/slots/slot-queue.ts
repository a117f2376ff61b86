import type { Occupant } from '../relay/job.js';

/** An occupant that waits for a slot. */
export interface Waiting<T extends Occupant> {
  readonly occupant: T;
  /** Takes a slot, if there is one for it. */
  readonly tryBegin: () => boolean;
  /** False: it does not begin. */
  readonly resolve: (begins: boolean) => void;
}

/** Occupants with the same text need the same slot: those of one name, or those in quarantine. */
const slotOf = ({ rows: [row] }: Occupant) => (row!.alone ? '' : row!.name);

/** Those that wait for a slot. */
export class SlotQueue<T extends Occupant> {
  private waiting: Waiting<T>[] = [];

  /** Resolves with true in its slot, with false when it was taken out before. */
  wait(occupant: T, tryBegin: () => boolean): Promise<boolean> {
    return new Promise((resolve) => this.waiting.push({ occupant, tryBegin, resolve }));
  }

  /** Takes out those that `leaves` says, and gives them back. */
  remove(leaves: (occupant: T) => boolean): T[] {
    const taken = this.waiting.filter(({ occupant }) => leaves(occupant));
    this.waiting = this.waiting.filter((one) => !taken.includes(one));
    for (const { resolve } of taken) resolve(false);
    return taken.map(({ occupant }) => occupant);
  }

  /** Starts the occupants that get a slot. A row in quarantine comes first. Of the others, a name with fewer running rows comes first. */
  fill(occupants: () => readonly Occupant[]): void {
    if (this.waiting.length === 0) return;
    const running = new Map<string, number>();
    for (const { begun, rows } of occupants())
      if (begun) running.set(rows[0]!.name, (running.get(rows[0]!.name) ?? 0) + 1);
    const rank = ({ rows: [row] }: Occupant) => (row!.alone ? -1 : (running.get(row!.name) ?? 0));
    const inOrder = this.waiting.toSorted((a, b) => rank(a.occupant) - rank(b.occupant));
    // A name that has no slot for one row has none for the next: of a hundred that wait, two are asked about.
    const full = new Set<string>();
    const begun = new Set<Waiting<T>>();
    for (const one of inOrder) {
      const slot = slotOf(one.occupant);
      if (full.has(slot)) continue;
      if (one.tryBegin()) begun.add(one);
      else full.add(slot);
    }
    this.waiting = this.waiting.filter((one) => !begun.has(one));
    for (const { resolve } of begun) resolve(true);
  }
}
