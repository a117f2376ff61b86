import { EXIT } from './exit.js';
import type { Streams } from './streams.js';

/**
 * Ctrl-C and a supervisor's SIGTERM. Before the work begins they end the process. Then the first lets the step under way end (an
 * event, a batch), so that nothing is half done; the second ends the process.
 */
export class Interrupt {
  private readonly controller = new AbortController();
  private working = false;

  constructor(private readonly streams: Streams) {
    for (const name of ['SIGINT', 'SIGTERM'] as const) process.on(name, () => this.came());
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** From here on a step may be under way. */
  workBegins(): void {
    this.working = true;
  }

  private came(): void {
    if (!this.working || this.signal.aborted) process.exit(EXIT.interrupted);
    this.streams.error('\nStopping after the step under way. Press Ctrl-C again to end at once.\n');
    this.controller.abort();
  }
}
