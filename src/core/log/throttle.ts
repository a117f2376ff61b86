const EVERY_MS = 60_000;

/** Lets one log line of each key through in a minute, for lines that anyone on the network can cause. Keys are few: names of sources. */
export class Throttle {
  private readonly lines = new Map<string, { loggedAt: number; unlogged: number }>();

  /** How many lines were held back since the last one. Undefined when this one must be held back too. */
  admit(key: string): { readonly unlogged: number | undefined } | undefined {
    const now = performance.now();
    const line = this.lines.get(key);
    if (line !== undefined && now - line.loggedAt < EVERY_MS) {
      line.unlogged += 1;
      return undefined;
    }
    this.lines.set(key, { loggedAt: now, unlogged: 0 });
    return { unlogged: line === undefined || line.unlogged === 0 ? undefined : line.unlogged };
  }
}
