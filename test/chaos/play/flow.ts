import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { sleepUntil, waitUntil } from '../support/sleep-until.js';
import { overdue, unsettled } from './coroner.js';
import { POLL_MS } from './fleet.js';
import type { Log, Overdue } from './log.js';
import type { Provider } from './provider.js';

/** A lease that ended this long ago should be somebody's again, on a machine that has nothing else to do. */
export const OVERDUE_MS = POLL_MS + 1_000;
const LOOK_EVERY_MS = 250;
/** How long a look that was slow says something about leases: longer than one may be overdue. */
const SLOW_LOOKS = 40;
/** Events under way at once, so that a slow machine is not buried under retries. */
const OPEN = 20;
/** Rows that may be pending: with more, neither is an event sent nor a fault made. */
const BACKLOG = 50;
/** While a fault is about to be made, and while what it hit starts again. */
const EVENTS_PER_SECOND = { hunt: 15, rest: 3 };
const READY_MS = 120_000;
const DRAIN_MS = 120_000;

/** Asks the database; undefined while it cannot be asked. */
export type Ask = <T>(question: (client: Client) => Promise<T>) => Promise<T | undefined>;

export interface FlowSetup {
  readonly provider: Provider;
  readonly overdues: Pick<Log<Overdue>, 'write'>;
  readonly ask: Ask;
  /** For how long leases could be taken: somebody was there for them. */
  readonly upMs: () => number;
}

/** Events that flow as long as there are faults, no faster than the machine stands, and what becomes of their leases. */
export class Flow {
  /** A fault is about to be made: it is not to be in a silence. */
  hunting = false;
  private backlog = 0;
  private over = false;
  private readonly running: Promise<unknown>;

  constructor(private readonly setup: FlowSetup) {
    this.running = Promise.all([this.pace(), this.watch()]);
  }

  /** A machine that cannot keep up would be buried under lost leases, and what it then shows is its own slowness. */
  async ready(): Promise<void> {
    await waitUntil(() => this.setup.provider.open <= OPEN, READY_MS, 'events were not acknowledged');
    await waitUntil(() => this.backlog <= BACKLOG, READY_MS, 'the backlog did not go');
  }

  /** No more faults: what is left is sent, up to so many in all, and drains. */
  async finish(events: number): Promise<void> {
    const { provider, ask } = this.setup;
    this.stop();
    await this.running;
    while (provider.sent < events) {
      provider.release(provider.sent + Math.max(0, OPEN - provider.open));
      await sleep(25);
    }
    await provider.finished();
    await sleepUntil(async () => (await ask(unsettled)) === 0, DRAIN_MS);
  }

  stop(): void {
    this.over = true;
  }

  private async pace(): Promise<void> {
    const { provider } = this.setup;
    let at = performance.now();
    let credit = 0;
    while (!this.over) {
      const now = performance.now();
      credit = Math.min(
        OPEN,
        credit + ((now - at) / 1_000) * EVENTS_PER_SECOND[this.hunting ? 'hunt' : 'rest'],
      );
      at = now;
      const room = this.backlog > BACKLOG ? 0 : OPEN - provider.open;
      const count = Math.min(room, Math.floor(credit));
      if (count > 0) {
        provider.release(provider.sent + count);
        credit -= count;
      }
      await sleep(20);
    }
  }

  private async watch(): Promise<void> {
    const { ask, overdues, upMs } = this.setup;
    const looks: number[] = [];
    while (!this.over) {
      const startedAt = performance.now();
      this.backlog = (await ask(unsettled)) ?? this.backlog;
      const late = (await ask((client) => overdue(client, OVERDUE_MS))) ?? [];
      const lookMs = Math.round(Math.max(0, ...looks));
      for (const one of late) overdues.write({ ...one, upMs: Math.round(upMs()), lookMs });
      await sleep(LOOK_EVERY_MS);
      looks.push(performance.now() - startedAt - LOOK_EVERY_MS);
      if (looks.length > SLOW_LOOKS) looks.shift();
    }
  }
}
