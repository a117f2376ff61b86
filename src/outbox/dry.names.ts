import type { LeaseGroup } from './lease.plan.js';

/**
 * Which names had nothing due when they were last looked at. The end of a run frees a place and brings no work: the look that
 * follows it leaves these out, and with them most of its statements.
 */
export class DryNames {
  private readonly dry = new Set<string>();

  /** A look for all of these has found something, or nothing at all. */
  note({ names, alone }: LeaseGroup, found: boolean): void {
    for (const { name } of names) this.dry[found ? 'delete' : 'add'](lookOf(name, alone));
  }

  without(group: LeaseGroup): LeaseGroup {
    return { ...group, names: group.names.filter(({ name }) => !this.dry.has(lookOf(name, group.alone))) };
  }
}

const lookOf = (name: string, alone = false) => `${alone ? 'alone' : 'any'} ${name}`;
