import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { Courier } from './courier.js';
import { githubEvents } from './events/github.events.js';
import { shopifyEvents } from './events/shopify.events.js';
import { standardEvents } from './events/standard.events.js';
import { stripeEvents } from './events/stripe.events.js';
import { Ledger } from './ledger.js';
import { planOf, type Delivery, type Plan } from './plan.js';
import type { Random } from './random.js';
import type { Sink } from './sink.js';
import { Tally } from './tally.js';
import { judge, type Verdict } from './verdict.js';

/** Everything that a run showed. */
export interface Outcome extends Verdict {
  readonly plan: Plan;
  readonly tally: Tally;
  /** How long the storm of deliveries took, without the work after the answers. */
  readonly stormMs: number;
}

const STRIPE_EVENTS = 200;
const STANDARD_EVENTS = 200;
const PROGRESS_MS = 3_000;
/** Nothing has moved for so long: what is still owed then counts as lost. */
const PATIENCE_MS = 30_000;

/** Plays the providers against a receiver, and then looks into its tables. */
export class Sender {
  private readonly plan: Plan;
  private readonly tally = new Tally();
  private readonly courier: Courier;

  constructor(
    origin: string,
    private readonly databaseUrl: string,
    private readonly sink: Sink,
    random: Random,
    private readonly showProgress: (line: string) => void,
  ) {
    this.courier = new Courier(origin, this.tally);
    this.plan = planOf(
      [
        ...githubEvents(),
        ...shopifyEvents(),
        ...stripeEvents(STRIPE_EVENTS, random),
        ...standardEvents(STANDARD_EVENTS, random),
      ],
      random,
    );
  }

  async run(): Promise<Outcome> {
    const client = new Client({ connectionString: this.databaseUrl });
    // A connection that breaks while nothing is asked would end the process; the next question tells as well.
    client.on('error', () => undefined);
    await client.connect();
    try {
      return await this.play(new Ledger(client, this.plan.events));
    } finally {
      await client.end();
    }
  }

  private async play(ledger: Ledger): Promise<Outcome> {
    const { plan, tally, sink } = this;
    const stormMs = await this.wave('deliveries', plan.storm, ledger);
    await this.wave('sent again', plan.late, ledger);
    const verdict = judge(await ledger.entries(), tally.acknowledged, sink);
    return { plan, tally, stormMs, ...verdict };
  }

  /** Delivers, and waits until all that is owed has settled. */
  private async wave(name: string, deliveries: readonly Delivery[], ledger: Ledger): Promise<number> {
    const before = this.tally.deliveries;
    const startedAt = performance.now();
    const progress = setInterval(() => {
      void this.progress(name, before, deliveries.length, ledger).catch(() => undefined);
    }, PROGRESS_MS);
    try {
      await this.courier.deliverAll(deliveries);
      const ms = performance.now() - startedAt;
      await this.settled(ledger);
      return ms;
    } finally {
      clearInterval(progress);
    }
  }

  private async progress(name: string, before: number, count: number, ledger: Ledger): Promise<void> {
    const done = this.tally.deliveries - before;
    const applied = await ledger.applied();
    const number = (value: number) => value.toLocaleString('en');
    const percent = Math.floor((100 * done) / count);
    this.showProgress(
      `${name}: ${percent} % (${number(done)} of ${number(count)}), ${number(applied)} events handled, ` +
        `${number(this.sink.effects.size)} effects begun`,
    );
  }

  private async settled(ledger: Ledger): Promise<void> {
    let movedAt = performance.now();
    let before = Number.NaN;
    for (;;) {
      const unsettled = await ledger.unsettled();
      if (unsettled === 0) return;
      if (unsettled !== before) movedAt = performance.now();
      if (performance.now() - movedAt > PATIENCE_MS) return;
      before = unsettled;
      await sleep(200);
    }
  }
}
