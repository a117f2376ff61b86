import type { Streams } from './streams.js';

const WIDTH = 24;
/** Between two drawings, in milliseconds. */
const EVERY_MS = 100;

/** A progress bar on a terminal. Elsewhere it prints nothing. */
export class Progress {
  private drawnAt = -Infinity;
  private drawn = false;

  constructor(
    private readonly streams: Streams,
    private readonly what: string,
  ) {}

  /**
   * @param total undefined where it is not known
   * @param detail counts beside the bar, such as '3 refused'
   */
  at(done: number, total?: number, detail = ''): void {
    const { columns } = this.streams;
    const now = performance.now();
    const isLast = done === total;
    if (columns === undefined || (now - this.drawnAt < EVERY_MS && !isLast)) return;
    this.drawnAt = now;
    this.drawn = true;
    const line = `${this.what} ${barOf(done, total)}${detail === '' ? '' : `  ${detail}`}`;
    this.streams.error(`\r\u001b[2K${line.slice(0, columns - 1)}`);
  }

  /** Leaves the terminal's line to what follows. */
  end(): void {
    if (this.drawn) this.streams.error('\r\u001b[2K');
    this.drawn = false;
  }
}

function barOf(done: number, total: number | undefined): string {
  if (total === undefined) return `${done}`;
  const part = total === 0 ? 1 : Math.min(done / total, 1);
  const full = Math.round(part * WIDTH);
  return `[${'#'.repeat(full)}${'.'.repeat(WIDTH - full)}] ${done}/${total}`;
}
