/**
 * Decides when a figure alerts. It alerts once when the figure reaches its threshold. It alerts again after the figure has dropped to half
 * of it, since figures flicker.
 */
export class Hysteresis {
  private readonly alerted = new Set<string>();

  /** Whether this value must alert. */
  shouldAlert(what: string, value: number, threshold: number): boolean {
    if (value >= threshold) {
      if (this.alerted.has(what)) return false;
      this.alerted.add(what);
      return true;
    }
    if (value <= threshold / 2) this.alerted.delete(what);
    return false;
  }

  /** Whether it has alerted, and has not dropped to half since. */
  isAlerted(what: string): boolean {
    return this.alerted.has(what);
  }
}
