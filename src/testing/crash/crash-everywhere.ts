import { randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { INestApplicationContext } from '@nestjs/common';
import { InputRefused } from '../../core/errors.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { withTimeLimit } from '../../core/time/waits.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { StartupReconciler } from '../../inbox/catch-up/startup.reconciler.js';
import { Replays } from '../../operator/replay/replays.js';
import { TestKitStore } from '../../storage/testing/test-kit.store.js';
import { drain, runDue } from '../due-work.js';
import { CrashPlan, type When } from './crash-plan.js';
import { CrashingApp, type CalledEffect } from './crashing-app.js';
import { differences, varyingColumns, type Columns } from './differences.js';
import { outcomeOf, snapshot, workOf, type Outcome, type Snapshot } from './outcome.js';
import { OutsideCalls } from './outside-calls.js';

/**
 * Delivers one event to the application, as its provider does. It is called once more after a crash, since a provider that gets no
 * answer sends the event again.
 * @param id the event's id. Make every business key from it, so that the events of two steps do not meet
 */
export type CrashDelivery = (app: INestApplicationContext, id: string) => Promise<unknown>;

/** Options of `crashEverywhere`. */
export interface CrashOptions {
  /** How long one step may take, in milliseconds. @default 30000 */
  readonly stepMs?: number;
}

/** A step after which something is not as without a crash. */
export interface CrashFault {
  /** Such as 'a crash after commit 1'. */
  readonly step: string;
  /** The differences, one sentence each. */
  readonly problems: readonly string[];
}

/** The result of a run without faults. */
export interface CrashReport {
  /** Every step that was tried, in order. */
  readonly steps: readonly string[];
}

/** Steps after which the event has not done exactly what it does without a crash. */
export class CrashFaults extends Error {
  constructor(readonly faults: readonly CrashFault[]) {
    const lines = faults.flatMap(({ step, problems }) => problems.map((problem) => `- ${step}: ${problem}`));
    super(`crashEverywhere() found faults at ${faults.length} of its steps.\n${lines.join('\n')}`);
    this.name = 'CrashFaults';
  }
}

const store = new TestKitStore();
/** Rounds in which everything that waits is made due. Effects of effects take one each. */
const MAX_ROUNDS = 20;
const POLL_MS = 10;
const MAX_DUE_MS = 10_000;

/**
 * Handles an event again and again, and lets the application crash at another place each time. The places are before and after each query
 * of the handler, each enqueue, each commit, and each call of an effect. A crash destroys the connections of the instance, whose code does
 * not go on. A new instance recovers. Each time, the event must leave the rows and the effects that it leaves without a crash. It must
 * leave them too when it is delivered again, and when it is replayed. Call it on a database that only the test uses. It waits for nothing
 * but the application.
 * @param createApp makes an instance with a DataSource of its own, and calls `init()`
 * @throws CrashFaults with the steps and their differences
 * @throws InputRefused when no handler takes the event, or when `createApp` gives an instance twice
 */
export async function crashEverywhere(
  createApp: () => Promise<INestApplicationContext>,
  delivery: CrashDelivery,
  options: CrashOptions = {},
): Promise<CrashReport> {
  const trials = new Trials(createApp, delivery, options);
  try {
    return await trials.run();
  } finally {
    await trials.end();
  }
}

/** A trial that has ended, with what is needed to go on with its event. */
interface Trial {
  readonly id: string;
  readonly before: Snapshot;
  readonly outcome: Outcome;
}

class Trials {
  private readonly plan = new CrashPlan();
  private readonly calls = new OutsideCalls();
  private readonly effects: CalledEffect[] = [];
  private readonly steps: string[] = [];
  private readonly faults: CrashFault[] = [];
  private readonly crashed: CrashingApp[] = [];
  private current: CrashingApp | undefined;
  private nth = 0;

  constructor(
    private readonly createApp: () => Promise<INestApplicationContext>,
    private readonly delivery: CrashDelivery,
    private readonly options: CrashOptions,
  ) {}

  async run(): Promise<CrashReport> {
    this.calls.start();
    await this.finishEarlier();
    const first = await this.undisturbed();
    const points = [...this.plan.passed];
    const expected = await this.undisturbed();
    const varying = varyingColumns(first.outcome, expected.outcome);
    this.judge('two events without a crash', first.outcome, expected.outcome, varying);
    this.refuseFaults();
    await this.again('a second delivery', expected, varying, (app) => this.delivery(app.app, expected.id));
    await this.again('a replay', expected, varying, (app) => replay(app, expected.outcome));
    for (const [nth, point] of points.entries()) {
      for (const when of ['before', 'after'] as const) {
        const step = `a crash ${when} ${point}`;
        this.judge(step, expected.outcome, (await this.crashing(step, nth, when)).outcome, varying);
      }
    }
    this.refuseFaults();
    return { steps: this.steps };
  }

  async end(): Promise<void> {
    this.calls.stop();
    for (const app of [...this.crashed, this.current]) await app?.end();
  }

  /**
   * Finishes what earlier tests have left for this application. At boot the reconciler gives events of the last minutes to handlers that are
   * new. Their runs would be taken for work of the event.
   */
  private async finishEarlier(): Promise<void> {
    const { app } = await this.running();
    if (app.get<ResolvedOptions>(WEBHOOKS_OPTIONS).reconcile) await app.get(StartupReconciler).reconcile();
    await drain(app, MAX_DUE_MS);
  }

  /** An event without a crash. */
  private async undisturbed(): Promise<Trial> {
    this.plan.arm();
    const trial = await this.trial('without a crash', (app, id, before) => this.handle(app, id, before));
    const { unfinished, handlers } = trial.outcome;
    if (handlers.length === 0)
      throw new InputRefused(
        'crashEverywhere(): no handler took the event. Check its source and its type, and that `delivery` sends it',
      );
    if (unfinished.length > 0) throw new CrashFaults([{ step: 'without a crash', problems: unfinished }]);
    return trial;
  }

  private crashing(step: string, nth: number, when: When): Promise<Trial> {
    this.plan.arm(nth, when);
    return this.trial(step, async (app, id, before) => {
      const work = this.handle(app, id, before);
      await Promise.race([work, app.crashed]);
      // Its delivery breaks off, or never ends.
      work.catch(() => undefined);
      if (app.isDead()) await this.recover(app, id, before);
      else await work;
    });
  }

  private async trial(
    step: string,
    work: (app: CrashingApp, id: string, before: Snapshot) => Promise<void>,
  ): Promise<Trial> {
    const id = `evt_crash_${(this.nth += 1)}_${randomBytes(6).toString('hex')}`;
    const app = await this.running();
    const before = await snapshot(app.manager);
    this.forget();
    await withTimeLimit(
      work(app, id, before),
      this.options.stepMs ?? 30_000,
      `crashEverywhere(), step '${step}',`,
    );
    return { id, before, outcome: await this.outcome(id, before) };
  }

  private async outcome(id: string, before: Snapshot): Promise<Outcome> {
    const after = await snapshot((await this.running()).manager);
    return outcomeOf(id, before, after, { effects: this.effects, calls: this.calls.all });
  }

  /** The same event once more, after its end. */
  private async again(
    step: string,
    { id, before, outcome }: Trial,
    varying: Columns,
    work: (app: CrashingApp) => Promise<unknown>,
  ): Promise<void> {
    this.plan.arm();
    const app = await this.running();
    await withTimeLimit(
      work(app).then(() => this.finish(app, before)),
      this.options.stepMs ?? 30_000,
      `crashEverywhere(), step '${step}',`,
    );
    this.judge(step, outcome, await this.outcome(id, before), varying);
  }

  private judge(step: string, expected: Outcome, found: Outcome, varying: Columns): void {
    this.steps.push(step);
    const problems = differences(expected, found, varying);
    if (problems.length > 0) this.faults.push({ step, problems });
    // It would go on in the steps behind it, and be taken for their work.
    if (found.unfinished.length > 0) this.refuseFaults();
  }

  private refuseFaults(): void {
    if (this.faults.length > 0) throw new CrashFaults(this.faults);
  }

  private async handle(app: CrashingApp, id: string, before: Snapshot): Promise<void> {
    await this.delivery(app.app, id);
    await this.finish(app, before);
  }

  /** A new instance takes over, and the provider sends the event again. */
  private async recover(dead: CrashingApp, id: string, before: Snapshot): Promise<void> {
    this.crashed.push(dead);
    this.current = undefined;
    const app = await this.running();
    // Until the server has seen the end of the connections, their locks keep others out.
    while ((await store.sessions(app.manager, dead.pids)) > 0) await wait(POLL_MS);
    await store.makeDue(app.manager, app.owner);
    await this.handle(app, id, before);
  }

  /** Runs due work, and makes waiting work due, until the event has come to its end or can go no further. */
  private async finish(app: CrashingApp, before: Snapshot): Promise<void> {
    for (let round = 0; round < MAX_ROUNDS; round += 1) {
      const { leased } = await runDue(app.app, MAX_DUE_MS);
      const pending = workOf(before, { outbox: await store.rows(app.manager) }).filter(
        ({ state }) => state === 'pending',
      );
      // A run that has failed is a fault already: its retries would end alike.
      if (pending.every(({ error }) => error !== null)) return;
      const moved = await store.makeDue(app.manager, app.owner);
      if (leased + moved === 0) return;
    }
  }

  private async running(): Promise<CrashingApp> {
    if (this.current !== undefined) return this.current;
    const app = await this.createApp();
    const made = new CrashingApp(app, this.plan, (call) => this.effects.push(call));
    if (this.crashed.some(({ dataSource }) => dataSource === made.dataSource))
      throw new InputRefused(
        'crashEverywhere(): expected a new application from each call of `createApp`, with a DataSource of its own',
      );
    return (this.current = made);
  }

  private forget(): void {
    this.effects.length = 0;
    this.calls.forget();
  }
}

/** Runs the handlers of the event again, as an operator may. New effects are allowed, so that they are seen. */
async function replay({ app }: CrashingApp, { handlers }: Outcome): Promise<void> {
  const events = handlers.flatMap(({ source, tenant, eventId }) =>
    source === null || eventId === null ? [] : [{ source, tenant: tenant ?? '', eventId }],
  );
  const unique = [...new Map(events.map((event) => [JSON.stringify(event), event])).values()];
  const why = { by: 'crashEverywhere()', reason: 'a handler may run again', newEffects: 'allow' } as const;
  await app.get(Replays).run({ events: unique }, why);
}
