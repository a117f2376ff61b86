/** Failures in a row of something that is tried again and again: which of them are worth a line in the log. */
export class Outage {
  private failures = 0;
  private since = 0;

  /** Counts a failure. True for the 1st, 2nd, 4th, 8th, … and each 256th: at one a second, a line each four minutes at last. */
  recordFailure(): boolean {
    if (this.failures === 0) this.since = performance.now();
    this.failures += 1;
    return Number.isInteger(Math.log2(this.failures)) || this.failures % 256 === 0;
  }

  /** Records a success. Returns the outage that it has ended; undefined when nothing had failed. */
  recordSuccess(): { readonly failures: number; readonly ms: number } | undefined {
    if (this.failures === 0) return undefined;
    const over = { failures: this.failures, ms: Math.round(performance.now() - this.since) };
    this.failures = 0;
    return over;
  }
}
