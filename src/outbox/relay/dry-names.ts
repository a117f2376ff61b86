import type { LeaseGroup, Look, NameCounts } from './lease-plan.js';
import type { WokenNames } from '../wake/wake-up.js';

/**
 * Which names had nothing due when they were last looked at. The end of a run frees a place and brings no work, and a
 * commit brings rows of known names: the look that follows leaves the others out, and with them most of its statements.
 */
export class DryNames {
  private readonly dry = new Set<string>();
  /** The same of the lane. */
  private readonly dryAlone = new Set<string>();
  /** Woken while a look is under way, which may have been too early for them. */
  private readonly woken = new Set<string>();
  private wokenAll = false;

  lookBegins(): void {
    this.woken.clear();
    this.wokenAll = false;
  }

  /** A look for all of these was over. `found`: there may be more of them. */
  note(names: readonly string[], found: boolean, alone = false): void {
    const dry = this.of(alone);
    for (const name of names) {
      if (found) dry.delete(name);
      else if (!this.wokenAll && !this.woken.has(name)) dry.add(name);
    }
  }

  /** Rows of these have been committed. */
  forget(names: WokenNames): void {
    if (names === undefined) {
      this.dry.clear();
      this.dryAlone.clear();
      this.wokenAll = true;
    }
    for (const name of names ?? []) {
      this.dry.delete(name);
      this.woken.add(name);
    }
  }

  /** Whether the last look for a name found nothing due. */
  has(name: string): boolean {
    return this.dry.has(name);
  }

  /** Whether nothing of any of these is to be looked for. */
  hasAll({ names, alone }: Pick<Look, 'names' | 'alone'>): boolean {
    const dry = this.of(alone);
    return names.every((name) => dry.has(name));
  }

  /** Whether nothing of anything is: the end of every run asks, and an application may have hundreds of handlers. */
  isAll({ all, lane }: NameCounts): boolean {
    return all > 0 && this.dry.size === all && this.dryAlone.size === lane;
  }

  without(group: LeaseGroup): LeaseGroup {
    const dry = this.of(group.alone);
    return { ...group, names: group.names.filter(({ name }) => !dry.has(name)) };
  }

  private of(alone = false): Set<string> {
    return alone ? this.dryAlone : this.dry;
  }
}
