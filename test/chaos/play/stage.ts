import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { sleepUntil, waitUntil } from '../support/sleep-until.js';
import { cut, lookAt } from './coroner.js';
import { ClaimHold } from './claim-hold.js';
import { Fleet, LEASE_MS, type FleetSetup } from './fleet.js';
import { Flow } from './flow.js';
import { Log, LOGS, type Kill, type Overdue, type Sent, type SinkCall } from './log.js';
import { planOf, SLOW, type Plan, type PlannedKill } from './plan.js';
import { Provider } from './provider.js';
import type { ChaosReceiver } from './receiver.js';
import { ChaosSink } from './sink.js';

/** At least so many are up before one is killed, so that its leases are somebody's to take. */
const UP = 2;
const AMBUSH_MS = 4_000;
const IN_CLAIM = 'in a claim';
/** By then the others have taken over. */
const TAKEN_MS = 3_000;
const START_MS = 120_000;

export interface StageSetup extends Omit<FleetSetup, 'sinkUrl' | 'databaseUrl'> {
  readonly seed: number;
  readonly kills: number;
  /** At least. */
  readonly events: number;
  /** A database of this stage's own, migrated; the receivers may have another way to it. */
  readonly databaseUrl: string;
  readonly receiversUrl: string;
  readonly say: (line: string) => void;
}

/** Kills receivers while events flow, and lets what is left drain. What it means is the checker's to say. */
export class Stage {
  private readonly plan: Plan;
  private readonly kills: Log<Kill>;
  private readonly overdues: Log<Overdue>;
  private fleet: Fleet | undefined;
  private flow: Flow | undefined;
  private killed = 0;

  private constructor(
    private readonly setup: StageSetup,
    private readonly client: Client,
    private readonly claims: ClaimHold,
  ) {
    this.plan = planOf(setup.seed, setup.kills, SLOW * setup.events);
    this.kills = new Log(join(setup.dir, LOGS.kills));
    this.overdues = new Log(join(setup.dir, LOGS.overdue));
  }

  static async play(setup: StageSetup): Promise<void> {
    await mkdir(setup.dir, { recursive: true });
    const client = new Client({ connectionString: setup.databaseUrl });
    await client.connect();
    const claims = await ClaimHold.open(setup.databaseUrl);
    const sinkLog = new Log<SinkCall>(join(setup.dir, LOGS.sink));
    const providerLog = new Log<Sent>(join(setup.dir, LOGS.provider));
    const sink = await ChaosSink.start(sinkLog, LEASE_MS / 2);
    const stage = new Stage(setup, client, claims);
    try {
      await stage.run(sink.url, providerLog);
    } catch (error) {
      throw new Error(`see the logs in ${setup.dir}`, { cause: error });
    } finally {
      stage.flow?.stop();
      // What is held would be drained for nothing.
      await claims.close();
      await stage.fleet?.stop();
      sink.stop();
      await Promise.all([sinkLog, providerLog, stage.kills, stage.overdues].map((log) => log.close()));
      await client.end();
    }
  }

  private async run(sinkUrl: string, log: Log<Sent>): Promise<void> {
    this.fleet = await Fleet.start({ ...this.setup, databaseUrl: this.setup.receiversUrl, sinkUrl });
    const { fleet, overdues, client } = this;
    const provider = new Provider(this.plan.events, () => fleet.next(), log);
    this.flow = new Flow({
      provider,
      overdues,
      ask: (question) => question(client),
      upMs: () => fleet.upMs(),
    });
    for (const planned of this.plan.kills) await this.kill(planned, fleet, this.flow);
    await this.flow.finish(this.setup.events);
  }

  private async kill(
    { victim, pauseMs, at, cutsAnother, isAlone }: PlannedKill,
    fleet: Fleet,
    flow: Flow,
  ): Promise<void> {
    await flow.ready();
    await waitUntil(() => fleet.up.length >= UP, START_MS, 'the receivers did not come back');
    if (isAlone) await waitUntil(() => fleet.seeEachOther, START_MS, 'the receivers did not stay up');
    flow.hunting = true;
    await sleep(pauseMs);
    const receiver = fleet.up[victim % fleet.up.length]!;
    const { owner, name } = receiver;
    const reached = await this.waitAt(at, receiver);
    if (receiver.owner !== owner) throw new Error(`${name} ended by itself; see its log`);
    if (!reached || at === IN_CLAIM) receiver.freeze();
    // A third one has seen all of them, and takes over at once.
    const another =
      fleet.up.length > UP && !isAlone ? fleet.up.find((one) => one !== receiver)?.owner : undefined;
    const wasCut = cutsAnother && another !== undefined && (await cut(this.client, another));
    const watchers = fleet.up.filter((one) => one !== receiver && one.isSeen && receiver.isSeen);
    const seen = await lookAt(this.client, { owner: owner!, name });
    const point = typeof at === 'object' ? `${at.point} ${at.when}` : at;
    this.kills.write({
      at: reached ? point! : 'anywhere',
      missed: reached ? undefined : point,
      owner: owner!,
      cut: wasCut ? another : undefined,
      watchers: watchers.map((one) => one.owner!),
      ...seen,
    });
    // A claim goes on at the server; its answer is never read.
    await this.claims.letGo();
    await receiver.kill();
    flow.hunting = false;
    if (isAlone) await sleep(TAKEN_MS);
    this.killed += 1;
    if (this.killed % 50 === 0) this.setup.say(`${this.killed} of ${this.plan.kills.length} killed`);
  }

  /** Returns whether it came to the place where it is to die. */
  private async waitAt(at: PlannedKill['at'], receiver: ChaosReceiver): Promise<boolean> {
    if (at === undefined) return false;
    if (at !== IN_CLAIM) return receiver.ambush(at, AMBUSH_MS);
    const { owner, name } = receiver;
    const isClaiming = async () => (await lookAt(this.client, { owner: owner!, name })).claiming > 0;
    await this.claims.hold();
    await sleepUntil(isClaiming, AMBUSH_MS);
    return isClaiming();
  }
}
