/** Where a step's crash stands: before or after what a point names. */
export type When = 'before' | 'after';

/** Numbers the points of a trial as they are passed, and says at which one the application crashes. */
export class CrashPlan {
  private names: string[] = [];
  private readonly counts = new Map<string, number>();
  private target: { readonly nth: number; readonly when: When } | undefined;

  /** The points that were passed since the last `arm`, in order. */
  get passed(): readonly string[] {
    return this.names;
  }

  /** Begins a trial. Without a point nothing crashes. */
  arm(nth?: number, when: When = 'before'): void {
    this.names = [];
    this.counts.clear();
    this.target = nth === undefined ? undefined : { nth, when };
  }

  /** @returns whether the application crashes before it, and after it */
  pass(what: string, detail = ''): Readonly<Record<When, boolean>> {
    const count = (this.counts.get(what) ?? 0) + 1;
    this.counts.set(what, count);
    const nth = this.names.push(`${what} ${count}${detail}`) - 1;
    const { target } = this;
    if (target?.nth !== nth) return { before: false, after: false };
    return { before: target.when === 'before', after: target.when === 'after' };
  }
}
