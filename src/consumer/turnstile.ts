/** Lets at most so many runs of one effect go on at once in this process. */
export class Turnstile {
  private readonly running = new Map<string, number>();
  private readonly waiting = new Map<string, (() => void)[]>();

  /** @returns what lets the next one in */
  async enter(name: string, limit = Number.POSITIVE_INFINITY): Promise<() => void> {
    const running = this.running.get(name) ?? 0;
    if (running < limit) this.running.set(name, running + 1);
    else {
      const queue = this.waiting.get(name) ?? [];
      this.waiting.set(name, queue);
      await new Promise<void>((resolve) => queue.push(resolve));
    }
    return () => this.leave(name);
  }

  /** The place goes to the one that has waited longest. */
  private leave(name: string): void {
    const next = this.waiting.get(name)?.shift();
    if (next !== undefined) next();
    else this.running.set(name, this.running.get(name)! - 1);
  }
}
