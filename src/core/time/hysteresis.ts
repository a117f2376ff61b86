/** Tells once that a figure has reached its threshold, and again only after it fell to half of it: figures flicker. */
export class Hysteresis {
  private readonly told = new Set<string>();

  /** True when this value is the one to tell of. */
  reached(what: string, value: number, threshold: number): boolean {
    if (value >= threshold) {
      if (this.told.has(what)) return false;
      this.told.add(what);
      return true;
    }
    if (value <= threshold / 2) this.told.delete(what);
    return false;
  }

  /** Whether it was told of, and has not fallen to half since. */
  isTold(what: string): boolean {
    return this.told.has(what);
  }
}
