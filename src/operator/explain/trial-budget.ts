import { setImmediate } from 'node:timers/promises';

/** Bytes that one round may hash to explain rejections: a quarter of a second of a core in five. Anyone can send what is rejected. */
const ROUND_BYTES = 64 * 1024 * 1024;
/** How long trying may take in one round, in milliseconds: secrets may come from a slow function of the application's. */
const ROUND_MS = 2_000;
/** How long checks, and making what they check, may take in one round, in milliseconds of this thread. Some schemes use a slower signature. */
const ROUND_WORK_MS = 250;
/** Other requests get their turn after so many milliseconds of such work. */
const BREATH_MS = 2;

/** The budget of one round for trying corrections of rejected requests. */
export class TrialBudget {
  private reserved = 0;
  private workedMs = 0;
  private breathedAtMs = 0;
  private readonly endsAt: number;

  constructor(
    private left = ROUND_BYTES,
    ms = ROUND_MS,
    private readonly workMs = ROUND_WORK_MS,
  ) {
    this.endsAt = performance.now() + ms;
  }

  /** Leaves so many further samples an equal part each. The next samples get the unused rest. */
  shareWith(others: number): void {
    this.reserved = Math.floor((this.left * others) / (others + 1));
  }

  /** False when it does not have these bytes, or the time is over. */
  async pay(bytes: number): Promise<boolean> {
    if (bytes > this.left - this.reserved || this.workedMs > this.workMs) return false;
    if (performance.now() > this.endsAt) return false;
    this.left -= bytes;
    if (this.workedMs - this.breathedAtMs >= BREATH_MS) {
      this.breathedAtMs = this.workedMs;
      await setImmediate();
    }
    return true;
  }

  /** Counts the time that a check, or making its request, has taken. */
  recordWork(ms: number): void {
    this.workedMs += ms;
  }
}
