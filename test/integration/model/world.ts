import { Injectable, type Type } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../../src/index.js';
import { JobRunner } from '../../../src/outbox/relay/job.runner.js';
import { PausedNames } from '../../../src/outbox/relay/paused-names.js';
import { until } from '../../support/application.js';
import { createDatabase, type TestDatabase } from '../../support/database.js';
import { Solos } from '../../../src/outbox/slots/solo.js';
import { awardeeSource, clear, record, startInbox, type TestInbox } from '../support/inbox.js';
import { EVENTS, MAX_ATTEMPTS, UNITS, type End, type Outcome } from './inbox.model.js';
import type { Call, Seen } from './round.model.js';

/** A machine that is busy with other things. */
const BUSY_MS = 60_000;

/** A run that waits to be told how it ends. */
interface Hanging extends Call {
  readonly end: (how: End) => void;
}

export interface SeenRow extends Seen {
  readonly state: string;
  readonly reason: string | null;
  readonly leased: boolean;
  readonly due: boolean;
  readonly generation: number;
}

/** Two instances of an application on one database, whose methods do what a command says. */
export class World {
  /** Every call, until it is taken. */
  calls: Call[] = [];
  hanging: Hanging[] = [];
  /** Keys under which effects were called. */
  readonly keys = new Set<string>();
  inboxes: readonly TestInbox[] = [];
  private outcomes: readonly Outcome[] = [];

  private constructor(readonly database: TestDatabase) {}

  static async start(): Promise<World> {
    const database = await createDatabase();
    const world = new World(database);
    const webhooks = {
      sources: { awardee: awardeeSource({ retriesSameBytes: true }) },
      // A lease ends when the test says so.
      relay: { lease: '1h', listen: false },
    } as const;
    const start = (relay: number) => startInbox({ database, webhooks, providers: [methods(world, relay)] });
    world.inboxes = [await start(0), await start(1)];
    // In the model's time nothing takes long.
    for (const { app } of world.inboxes) app.get(Solos).firstMs = 600_000;
    return world;
  }

  async stop(): Promise<void> {
    for (const inbox of this.inboxes) await inbox.stop();
    await this.database.drop();
  }

  /** As if nothing had ever happened. */
  async reset(): Promise<void> {
    for (const { end } of this.hanging) end('fails');
    this.hanging = [];
    await until(() => this.inboxes.every(({ work }) => work.running === 0), BUSY_MS);
    await clear(this.database);
    this.calls = [];
    this.keys.clear();
    this.forgetPauses();
  }

  /** A round of one instance, until each of its runs has ended or hangs. */
  async round(relay: number, outcomes: readonly Outcome[]): Promise<Call[]> {
    this.outcomes = outcomes;
    await this.inboxes[relay]!.startRound();
    await this.still(relay);
    return this.calls.splice(0);
  }

  /** Tells a hanging run how it ends, and waits until that is recorded or refused. */
  async end(run: Pick<Call, 'outboxId' | 'attempt'>, how: End): Promise<void> {
    const one = this.hanging.find(
      ({ outboxId, attempt }) => outboxId === run.outboxId && attempt === run.attempt,
    )!;
    this.hanging = this.hanging.filter((other) => other !== one);
    one.end(how);
    await this.still(one.relay);
  }

  /** What a pause is to the other instance a second later. */
  forgetPauses(): void {
    for (const { app } of this.inboxes) app.get(PausedNames).forget();
  }

  /** What waits for its retry does so for an hour from now, whatever its delay was drawn as. */
  async seen(): Promise<SeenRow[]> {
    const waiting = `state = 'pending' AND leased_by IS NULL AND due_at > now()`;
    await this.database.query(
      `UPDATE webhook_outbox SET due_at = now() + interval '1 hour' WHERE ${waiting}`,
    );
    return this.database.query<SeenRow>(
      `SELECT id, event_id AS event, replace(name, 'awardee/', '') AS unit, state, reason, attempt, lost, generation,
              leased_by IS NOT NULL AS leased, CASE WHEN leased_by IS NULL THEN due_at ELSE lease_until END <= now() AS due
         FROM webhook_outbox ORDER BY created_at, id`,
    );
  }

  /** A method's way: the command's word on it, or a wait for a later one. */
  async reached(call: Omit<Call, 'outcome'>): Promise<void> {
    const at = EVENTS.findIndex((id) => id === call.event) * UNITS.length + UNITS.indexOf(call.unit);
    const outcome = this.outcomes[at] ?? 'done';
    if (call.unit !== 'handle') this.keys.add(call.outboxId);
    this.calls.push({ ...call, outcome });
    const how = outcome === 'hangs' ? await this.hang({ ...call, outcome }) : outcome;
    if (how === 'permanent') throw new PermanentError('never');
    if (how === 'fails') throw new Error('no answer');
    if (how === 'refused') throw Object.assign(new Error('refused'), { notDone: true });
  }

  private hang(call: Call): Promise<End> {
    return new Promise((resolve) => this.hanging.push({ ...call, end: resolve }));
  }

  private async still(relay: number): Promise<void> {
    const { app } = this.inboxes[relay]!;
    await new Promise((resolve) => setImmediate(resolve));
    await until(
      () => app.get(JobRunner).jobs.size === this.hanging.filter((one) => one.relay === relay).length,
      BUSY_MS,
    );
  }
}

function methods(world: World, relay: number): Type {
  const options = { retry: { base: '1h', cap: '1h', maxAttempts: MAX_ATTEMPTS }, timeout: '1h' } as const;

  @Injectable()
  class Methods {
    /** It writes first and fails then: what it wrote must go. */
    @OnWebhook('awardee', '*', { name: 'handle', ...options })
    async handle(event: WebhookEvent, context: HandlerContext) {
      const { attempt, outboxId } = context;
      const id = EVENTS.find((one) => one === event.eventId)!;
      const way = world.reached({ relay, unit: 'handle', event: id, attempt, outboxId });
      // Not before a hanging run is to go on: it would hold the record's row against the next attempt.
      const ended = await way.then(
        () => undefined,
        (error: unknown) => error,
      );
      await record(event, context);
      for (const effect of ['mail', 'charge']) await context.enqueue(effect, { event: id });
      if (ended !== undefined) throw ended;
    }

    @OnEffect('mail', options)
    mail({ event }: { event: Call['event'] }, { attempt, key }: EffectContext) {
      return world.reached({ relay, unit: 'mail', event, attempt, outboxId: key });
    }

    @OnEffect('charge', { ...options, inDoubt: 'park' })
    charge({ event }: { event: Call['event'] }, { attempt, key }: EffectContext) {
      return world.reached({ relay, unit: 'charge', event, attempt, outboxId: key });
    }
  }
  return Methods;
}
