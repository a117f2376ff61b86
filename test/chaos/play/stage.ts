import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { sleepUntil } from '../support/sleep-until.js';
import { Fleet, LEASE_MS, POLL_MS } from './fleet.js';
import { overdue, lookAt, unsettled } from './coroner.js';
import { Log, LOGS, type Kill, type Overdue, type Sent, type SinkCall } from './log.js';
import { planOf, type Plan, type PlannedKill } from './plan.js';
import { Provider } from './provider.js';
import { ChaosSink } from './sink.js';

/** A lease that ended this long ago should be somebody's again. */
export const OVERDUE_MS = POLL_MS + 1_000;

/** At least so many are up before one is killed, so that its leases are somebody's to take. */
const UP = 2;
/** Events under way at once, so that a slow machine is not buried under retries. */
const OPEN = 20;
/** Rows that may be pending: with more, neither is an event sent nor a receiver killed. */
const BACKLOG = 50;
const AMBUSH_MS = 4_000;
/** While a receiver is about to be killed, and while those that were start again. */
const EVENTS_PER_SECOND = { hunt: 15, rest: 3 };
/** The events that are planned are enough for as slow a machine as this. */
const SLOW = 20;
const START_MS = 120_000;
const DRAIN_MS = 120_000;

export interface StageSetup {
  readonly seed: number;
  readonly kills: number;
  /** At least. */
  readonly events: number;
  readonly adapter: 'express' | 'fastify';
  /** A database of this stage's own, migrated; the receivers may have another way to it. */
  readonly databaseUrl: string;
  readonly receiversUrl: string;
  /** Where its logs go. */
  readonly dir: string;
  /** The compiled receiver. */
  readonly program: string;
  readonly say: (line: string) => void;
}

/** Kills receivers while events flow, and lets what is left drain. What it means is the checker's to say. */
export class Stage {
  private readonly plan: Plan;
  private readonly kills: Log<Kill>;
  private readonly overdues: Log<Overdue>;
  private fleet: Fleet | undefined;
  private killed = 0;
  private over = false;
  private hunting = false;
  private backlog = 0;

  private constructor(
    private readonly setup: StageSetup,
    private readonly client: Client,
  ) {
    this.plan = planOf(setup.seed, setup.kills, SLOW * setup.events);
    this.kills = new Log(join(setup.dir, LOGS.kills));
    this.overdues = new Log(join(setup.dir, LOGS.overdue));
  }

  static async play(setup: StageSetup): Promise<void> {
    await mkdir(setup.dir, { recursive: true });
    const client = new Client({ connectionString: setup.databaseUrl });
    await client.connect();
    const sinkLog = new Log<SinkCall>(join(setup.dir, LOGS.sink));
    const providerLog = new Log<Sent>(join(setup.dir, LOGS.provider));
    const sink = await ChaosSink.start(sinkLog, LEASE_MS / 2);
    const stage = new Stage(setup, client);
    try {
      await stage.run(sink.url, providerLog);
    } finally {
      stage.over = true;
      await stage.fleet?.stop();
      sink.stop();
      await Promise.all([sinkLog, providerLog, stage.kills, stage.overdues].map((log) => log.close()));
      await client.end();
    }
  }

  private async run(sinkUrl: string, log: Log<Sent>): Promise<void> {
    const { receiversUrl, adapter, dir, program } = this.setup;
    this.fleet = await Fleet.start({ databaseUrl: receiversUrl, adapter, dir, program, sinkUrl });
    const { fleet } = this;
    const provider = new Provider(this.plan.events, () => fleet.origin(), log);
    const pacing = this.pace(provider);
    const watching = this.watch();
    for (const planned of this.plan.kills) await this.kill(planned, provider);
    this.over = true;
    await pacing;
    while (provider.sent < this.setup.events) {
      provider.release(provider.sent + Math.max(0, OPEN - provider.open));
      await sleep(25);
    }
    await provider.finished();
    await this.drain();
    await watching;
  }

  private async kill({ victim, pauseMs, at }: PlannedKill, provider: Provider): Promise<void> {
    await this.until(() => provider.open <= OPEN, START_MS, 'events are not acknowledged');
    // A machine that cannot keep up would be buried under lost leases, and what it then shows is its own slowness.
    await this.until(() => this.backlog <= BACKLOG, START_MS, 'the backlog does not go');
    await this.until(() => this.fleet!.up.length >= UP, START_MS, 'the receivers did not come back');
    this.hunting = true;
    await sleep(pauseMs);
    const { up } = this.fleet!;
    const receiver = up[victim % up.length]!;
    const { owner, name } = receiver;
    const reached = at !== undefined && (await receiver.ambush(at, AMBUSH_MS));
    if (receiver.owner !== owner) throw new Error(`${name} ended by itself; see its log`);
    if (!reached) receiver.freeze();
    const seen = await lookAt(this.client, { owner: owner!, name });
    const point = at && `${at.point} ${at.when}`;
    this.kills.write({
      at: reached ? point! : 'anywhere',
      missed: reached ? undefined : point,
      ...seen,
    });
    await receiver.kill();
    this.hunting = false;
    this.killed += 1;
    if (this.killed % 50 === 0) this.setup.say(`${this.killed} of ${this.plan.kills.length} killed`);
  }

  /** Lets events flow as long as there are kills: none of them is to be in a silence, and no machine in a flood. */
  private async pace(provider: Provider): Promise<void> {
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
    while (!this.over) {
      this.backlog = await unsettled(this.client);
      for (const one of await overdue(this.client, OVERDUE_MS)) {
        const upMs = Math.max(0, ...this.fleet!.up.map((receiver) => performance.now() - receiver.readyAt));
        this.overdues.write({ ...one, upMs: Math.round(upMs) });
      }
      await sleep(250);
    }
  }

  private drain(): Promise<void> {
    return sleepUntil(async () => (await unsettled(this.client)) === 0, DRAIN_MS);
  }

  private async until(condition: () => boolean, ms: number, otherwise: string): Promise<void> {
    const end = performance.now() + ms;
    while (!condition()) {
      if (performance.now() > end)
        throw new Error(`${otherwise} within ${ms} ms; see the logs in ${this.setup.dir}`);
      await sleep(20);
    }
  }
}
