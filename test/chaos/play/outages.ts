import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Random } from '../../../examples/sender/random.js';
import { ask } from '../support/server.js';
import { createStageDatabase } from '../support/stage-database.js';
import { waitUntil } from '../support/sleep-until.js';
import { atWork, claimed } from './coroner.js';
import { Fleet, LEASE_MS, type FleetSetup } from './fleet.js';
import { Flow } from './flow.js';
import { Log, LOGS, type Outage, type Overdue, type Sent, type SinkCall } from './log.js';
import type { Patient } from './patients.js';
import { planOf, SLOW } from './plan.js';
import { Provider } from './provider.js';
import { ChaosSink } from './sink.js';

/** Of load before an outage. */
const PAUSE_MS = [1_000, 3_000] as const;
/** How long a moment is waited for in which leases run and a claim is being made. */
const AMBUSH_MS = 10_000;
/** Acknowledgements that say that writes are back. */
const BACK = 10;
const BACK_MS = 60_000;

export interface OutagesSetup extends Omit<FleetSetup, 'sinkUrl' | 'databaseUrl'> {
  readonly seed: number;
  readonly outages: number;
  /** At least. */
  readonly events: number;
  readonly say: (line: string) => void;
}

/** Lets a database go away under load, again and again, and lets what is left drain. What it means is the checker's to say. */
export class Outages {
  private readonly random: Random;
  private readonly outages: Log<Outage>;
  private readonly overdues: Log<Overdue>;
  private readonly providerLog: Log<Sent>;
  private readonly acknowledged = new Set<string>();
  private fleet: Fleet | undefined;
  private flow: Flow | undefined;
  private upAt = performance.now();

  private constructor(
    private readonly setup: OutagesSetup,
    private readonly patient: Patient,
  ) {
    this.random = new Random(setup.seed);
    this.outages = new Log(join(setup.dir, LOGS.outages));
    this.overdues = new Log(join(setup.dir, LOGS.overdue));
    this.providerLog = new Log(join(setup.dir, LOGS.provider));
  }

  /** Resolves to the database's URL: its server is still up. */
  static async play(setup: OutagesSetup, patient: Patient): Promise<string> {
    await mkdir(setup.dir, { recursive: true });
    await createStageDatabase(patient.server.url, DATABASE);
    // A server that is asked to forget is not to forget the tables.
    await ask(patient.server.url, (client) => client.query('CHECKPOINT'));
    const sinkLog = new Log<SinkCall>(join(setup.dir, LOGS.sink));
    const sink = await ChaosSink.start(sinkLog, LEASE_MS / 2);
    const play = new Outages(setup, patient);
    try {
      await play.run(sink.url);
      return play.url;
    } catch (error) {
      throw new Error(`see the logs in ${setup.dir}`, { cause: error });
    } finally {
      play.flow?.stop();
      await play.fleet?.stop();
      sink.stop();
      const logs = [sinkLog, play.providerLog, play.outages, play.overdues];
      await Promise.all(logs.map((log) => log.close()));
    }
  }

  /** Past whatever stands between receivers and server. */
  private get url(): string {
    return this.patient.server.urlOf(DATABASE);
  }

  private async run(sinkUrl: string): Promise<void> {
    const { seed, outages, events, say } = this.setup;
    const fleet = await Fleet.start({
      ...this.setup,
      databaseUrl: this.patient.through(DATABASE),
      sinkUrl,
    });
    this.fleet = fleet;
    const log = { write: (sent: Sent) => this.heard(sent) };
    const provider = new Provider(planOf(seed, 0, SLOW * events).events, () => fleet.next(), log);
    this.flow = new Flow({
      provider,
      overdues: this.overdues,
      ask: (question) => ask(this.url, question),
      upMs: () => Math.min(fleet.upMs(), performance.now() - this.upAt),
    });
    for (let nth = 1; nth <= outages; nth += 1) {
      await this.flow.ready();
      await this.outage(nth, provider, this.flow);
      say(`${nth} of ${outages}`);
    }
    await this.flow.finish(events);
  }

  private async outage(nth: number, provider: Provider, flow: Flow): Promise<void> {
    const { patient } = this;
    await patient.prepare();
    flow.hunting = true;
    await sleep(this.random.int(...PAUSE_MS));
    await patient.weaken(nth);
    const before = await this.atWork();
    await patient.end();
    const at = Math.round(performance.now());
    await patient.comeBack();
    this.upAt = performance.now();
    const after = await ask(this.url, (client) => atWork(client, performance.now() - at));
    const claims = await ask(this.url, claimed);
    if (after === undefined || claims === undefined) throw new Error('the database did not come back');
    this.outages.write({
      kind: patient.kind,
      at,
      backAt: Math.round(this.upAt),
      leased: after.leased,
      claiming: before.claiming,
      // What was begun in the very moment is known afterwards, and what was settled meanwhile before.
      begun: new Set([...before.begun, ...after.begun]).size,
      unanswered: claims.filter((name) => !this.acknowledged.has(name)).length,
    });
    const enough = provider.acknowledged + BACK;
    await waitUntil(() => provider.acknowledged >= enough, BACK_MS, 'writes were not back');
    flow.hunting = false;
  }

  /** Waits for a moment in which leases run and a claim is being made. */
  private async atWork() {
    const end = performance.now() + AMBUSH_MS;
    for (;;) {
      const seen = await ask(this.url, (client) => atWork(client));
      if (seen === undefined) throw new Error('the database ended by itself');
      if ((seen.leased > 0 && seen.claiming > 0) || performance.now() > end) return seen;
    }
  }

  private heard(sent: Sent): void {
    this.providerLog.write(sent);
    if (sent.status >= 200 && sent.status < 300) this.acknowledged.add(`${sent.source}/${sent.id}`);
  }
}

const DATABASE = 'chaos';
