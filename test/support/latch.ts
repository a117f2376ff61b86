/** Holds whoever waits for it until a test opens it. */
export class Latch {
  private resolve = () => {};
  private readonly promise = new Promise<void>((resolve) => (this.resolve = resolve));
  /** How many wait, or have waited. */
  arrived = 0;

  wait(): Promise<void> {
    this.arrived += 1;
    return this.promise;
  }

  open(): void {
    this.resolve();
  }
}
