import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { PARTS, type Sample } from '../check/plateau.js';
import { sleepUntil } from '../support/sleep-until.js';
import { unsettled } from './coroner.js';
import type { Fleet } from './fleet.js';
import type { Log, Sent } from './log.js';
import type { PlannedEvent } from './plan.js';
import { Provider } from './provider.js';
import { Sampler } from './sampler.js';

export interface SoakSetup {
  readonly seed: number;
  readonly ms: number;
  readonly databaseUrl: string;
  readonly client: Client;
  readonly fleet: Fleet;
  readonly log: Pick<Log<Sent>, 'write'>;
  /** Events a second. @default half of what the machine gives at the beginning */
  readonly rate?: number;
  readonly say: (line: string) => void;
}

export interface SoakRun {
  readonly events: number;
  readonly perSecond: number;
  readonly seconds: number;
  readonly samples: readonly Sample[];
  /** Claims that are there at the end. */
  readonly claims: number;
}

/** Part of the run in which the machine says what it gives, and of that what the run asks of it. */
const TRIAL = 0.1;
const SHARE = 0.5;
/** Events under way at once, and rows that may be pending: with more, none is sent. */
const OPEN = 40;
const BACKLOG = 500;
const SAMPLES = 75;
/** Fewer events leave nothing that could be seen to grow. */
export const ENOUGH = 3_000;
/** Times as long as asked for. */
const LONGEST = 6;
const DRAIN_MS = 120_000;
/** More than any machine gets through. */
const PER_SECOND = 5_000;
const RESOURCES = 1_000;

/** How long claims are kept, when a day is so short: an event that comes again must find its claim on a slow machine too. */
export const keptMs = (ms: number) => Math.max(10_000, ms / 12);

/** Lets events flow at one rate while retention deletes as much as comes, with a snapshot pinned for a tenth of the time. */
export async function soak(setup: SoakSetup): Promise<SoakRun> {
  const { seed, ms, client, fleet, log, databaseUrl, say } = setup;
  const sampler = new Sampler(client, fleet);
  const heard = (entry: Sent) => {
    log.write(entry);
    if (entry.status === 200) sampler.acknowledged(entry.ms);
  };
  const provider = new Provider(eventsOf(seed, (ms / 1_000) * PER_SECOND), () => fleet.next(), {
    write: heard,
  });
  const startedAt = performance.now();
  const spent = () => (performance.now() - startedAt) / ms;
  // A busy machine takes longer for what there has to be to see.
  const at = () => Math.min(spent(), provider.acknowledged / ENOUGH);
  const flow = new Rate(provider, databaseUrl, at, setup.rate, (1.2 * ENOUGH * 1_000) / ms);
  const flowing = flow.run();
  // Told when it is waited for.
  flowing.catch(() => undefined);
  const samples: Sample[] = [];
  let took = 0;
  const pin = new Pin(databaseUrl);
  try {
    for (let n = 1; n <= SAMPLES; n += 1) {
      while (at() < n / SAMPLES && spent() < LONGEST) await sleep(20);
      if (spent() >= LONGEST) break;
      await pin.follow(at() >= PARTS.pinned[0] && at() < PARTS.pinned[1]);
      samples.push({ at: Math.min(at(), 0.999), values: await sampler.sample() });
      if (n % 15 === 0) say(`${Math.round(at() * 100)} %, ${provider.acknowledged} events`);
    }
  } finally {
    took = performance.now() - startedAt;
    await pin.follow(false);
    flow.stop();
    await flowing;
  }
  await provider.finished();
  await sleepUntil(async () => (await unsettled(client)) === 0, DRAIN_MS);
  const { rows } = await client.query<{ count: number }>(`SELECT count(*)::int AS count FROM webhook_claim`);
  return {
    events: provider.sent,
    perSecond: Math.round(flow.rate ?? 0),
    seconds: Math.round(took / 1_000),
    samples,
    claims: rows[0]!.count,
  };
}

/** Releases events: at first as many as are taken, then always as many, so that no figure grows because the machine has more time. */
class Rate {
  private over = false;

  constructor(
    private readonly provider: Provider,
    private readonly databaseUrl: string,
    private readonly at: () => number,
    public rate: number | undefined,
    /** So that the run ends in its time, where the machine can. */
    private readonly least: number,
  ) {}

  stop(): void {
    this.over = true;
  }

  /** On a connection of its own: the sampler's is in a transaction now and then. */
  async run(): Promise<void> {
    const client = new Client({ connectionString: this.databaseUrl });
    await client.connect();
    try {
      await this.release(client);
    } finally {
      await client.end();
    }
  }

  private async release(client: Client): Promise<void> {
    const { provider } = this;
    const startedAt = performance.now();
    let [last, credit, backlog, lookedAt] = [startedAt, 0, 0, 0];
    while (!this.over) {
      const now = performance.now();
      if (now - lookedAt > 250) [backlog, lookedAt] = [await unsettled(client), now];
      if (this.rate === undefined && this.at() > TRIAL)
        // What was not only taken, but done: two rows an event.
        this.rate = Math.max(
          this.least,
          (SHARE * (provider.acknowledged - backlog / 2) * 1_000) / (now - startedAt),
        );
      credit = Math.min(OPEN, credit + ((now - last) / 1_000) * (this.rate ?? PER_SECOND));
      last = now;
      const room = backlog > BACKLOG ? 0 : OPEN - provider.open;
      const count = Math.max(0, Math.min(room, Math.floor(credit)));
      provider.release(provider.sent + count);
      credit -= count;
      await sleep(10);
    }
  }
}

/** A transaction that is left open, as a forgotten session or a long report leaves one: nothing that dies after it may be removed. */
class Pin {
  private client: Client | undefined;

  constructor(private readonly databaseUrl: string) {}

  async follow(wanted: boolean): Promise<void> {
    if (wanted === (this.client !== undefined)) return;
    if (!wanted) {
      await this.client!.end();
      this.client = undefined;
      return;
    }
    this.client = new Client({ connectionString: this.databaseUrl });
    await this.client.connect();
    await this.client.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
    await this.client.query('SELECT count(*) FROM webhook_claim');
  }
}

/** Of a tenth two copies at once, and of another tenth one more, later. */
function eventsOf(seed: number, count: number): { length: number; at(n: number): PlannedEvent } {
  const at = (n: number): PlannedEvent => ({
    id: `soak-${seed}-${n}`,
    source: 'soaked',
    resource: `resource-${n % RESOURCES}`,
    copies: n % 10 === 0 ? 2 : 1,
    again: n % 10 === 5,
  });
  return { length: Math.ceil(count), at };
}
