import { Injectable } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  type Alert,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { DeliveryRuns } from '../../src/inbox/runs/delivery-runs.js';
import { ADAPTERS, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { answered, DUPLICATE, FAILED, OK, Receiver, UNAVAILABLE } from '../support/receiver.js';
import { awardee, type SignedRequest } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';
import { record } from '../support/tables.js';

interface Scripted {
  readonly failures?: number;
  readonly permanent?: boolean;
  /** The first attempt waits for a latch of the event's name. */
  readonly hangs?: boolean;
}

const latches = new Map<string, Latch>();
const latch = (name: string) => latches.get(name) ?? latches.set(name, new Latch()).get(name)!;
const HOUR_MS = 3_600_000;

@Injectable()
class Handlers {
  @OnWebhook('awardee', 'grant.*', { name: 'grant' })
  grant(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('patient', '*', { name: 'patient' })
  patient(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('twice', '*', { name: 'twice' })
  twice(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('hasty', '*', { name: 'hasty' })
  hasty(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('awardee', 'twofold', { name: 'steady' })
  async steady(event: WebhookEvent<Scripted>, { manager }: HandlerContext) {
    await record({ ...event, source: 'steady' }, { manager });
  }

  @OnWebhook('awardee', 'twofold', { name: 'shaky' })
  async shaky(event: WebhookEvent<Scripted>, { manager, attempt }: HandlerContext) {
    await record({ ...event, source: 'shaky' }, { manager });
    if (attempt <= (event.payload.failures ?? 0)) throw new Error('not yet');
  }

  @OnEffect('mail')
  async mail() {}

  private async handle(event: WebhookEvent<Scripted>, { manager, enqueue, attempt }: HandlerContext) {
    await record(event, { manager });
    await enqueue('mail', {});
    if (event.payload.hangs && attempt === 1) await latch(event.eventId).wait();
    if (event.payload.permanent) throw new PermanentError('the grant is closed');
    if (attempt <= (event.payload.failures ?? 0)) throw new Error(`attempt ${attempt} fails`);
    return `done at attempt ${attempt}`;
  }
}

describe.each(ADAPTERS)('retries: "provider" over HTTP on %s', (adapter) => {
  let database: TestDatabase;
  let receiver: Receiver;
  let second: Receiver;
  const alerts: Alert[] = [];
  const grant = (id: string, payload: Scripted = {}) => awardee(id, 'grant.made', { id, ...payload });
  const deliver = (request: SignedRequest, to = receiver) => to.deliver('awardee', request);

  beforeAll(async () => {
    latches.clear();
    database = await createDatabase();
    const start = () =>
      Receiver.start({
        adapter,
        database,
        providers: [Handlers],
        webhooks: {
          onAlert: (alert) => void alerts.push(alert),
          sources: {
            awardee: awardeeSource({ retries: 'provider' }),
            hasty: awardeeSource({ retries: 'provider', ackTimeout: '1500ms' }),
            patient: awardeeSource({ retries: 'provider', retryWindow: '6h' }),
            twice: awardeeSource({ retries: 'provider', maxAttempts: 2 }),
          },
        },
      });
    receiver = await start();
    second = await start();
  });
  afterAll(async () => {
    await receiver?.stop();
    await second?.stop();
    await database?.drop();
  });

  it('answers ok when the handler has done its work; only the effect is left to the relay', async () => {
    expect(await deliver(grant('done'))).toBe(OK);
    expect(await receiver.event('done')).toMatchObject({
      state: 'processed',
      outcome: 'awardee/grant: done at attempt 1',
    });
    expect(await receiver.applied('done')).toBe(1);
    expect(await receiver.rows('done')).toMatchObject([
      { kind: 'handler', state: 'done' },
      { kind: 'effect', state: 'pending' },
    ]);
    expect(await deliver(grant('done'))).toBe(DUPLICATE);
    expect(await receiver.applied('done')).toBe(1);
  });

  describe('R13, R14, R16 and R35 a handler that throws', () => {
    it('is answered 500 and leaves nothing but a claim that waits; the redelivery is ok, the next a duplicate', async () => {
      expect(await deliver(grant('throws', { failures: 1 }))).toBe(FAILED);
      expect(await receiver.applied('throws')).toBe(0);
      expect(await receiver.rows('throws')).toMatchObject([
        { kind: 'handler', state: 'pending', attempt: 1, leased_by: null, error: 'attempt 1 fails' },
      ]);
      await receiver.drain();
      expect(await receiver.rows('throws')).toMatchObject([{ state: 'pending', attempt: 1 }]);

      expect(await deliver(grant('throws', { failures: 1 }))).toBe(OK);
      expect(await receiver.applied('throws')).toBe(1);
      expect(await deliver(grant('throws', { failures: 1 }))).toBe(DUPLICATE);
      expect(await receiver.applied('throws')).toBe(1);
    });

    it('is left to the provider until its retry window is over: 72 hours unless the source says other', async () => {
      expect(await deliver(grant('window', { failures: 9 }))).toBe(FAILED);
      expect((await receiver.rows('window'))[0]!.due_in_ms / HOUR_MS).toBeCloseTo(72, 1);
      expect(await receiver.deliver('patient', grant('window-6h', { failures: 9 }))).toBe(FAILED);
      expect((await receiver.rows('window-6h'))[0]!.due_in_ms / HOUR_MS).toBeCloseTo(6, 1);
    });

    it('counts that window from the first delivery, whichever attempt fails', async () => {
      const failing = grant('late', { failures: 3 });
      expect(await deliver(failing)).toBe(FAILED);
      const passes = (hours: number) =>
        receiver.query(
          `UPDATE webhook_claim SET received_at = received_at - $1 * interval '1 hour' WHERE event_id = 'late'`,
          [hours],
        );
      await passes(10);
      expect(await deliver(failing)).toBe(FAILED);
      expect((await receiver.rows('late'))[0]!.due_in_ms / HOUR_MS).toBeCloseTo(62, 1);
      await passes(70);
      expect(await deliver(failing)).toBe(FAILED);
      expect((await receiver.rows('late'))[0]!.due_in_ms / HOUR_MS).toBeCloseTo(0, 1);
      expect(await deliver(failing)).toBe(OK);
    });

    it('may be redelivered to any instance', async () => {
      expect(await deliver(grant('elsewhere', { failures: 1 }))).toBe(FAILED);
      expect(await deliver(grant('elsewhere', { failures: 1 }), second)).toBe(OK);
      expect(await deliver(grant('elsewhere', { failures: 1 }))).toBe(DUPLICATE);
      expect(await receiver.applied('elsewhere')).toBe(1);
    });
  });

  describe('R14 attempts that are used up', () => {
    it('end in a dead letter and 200 at the sixth delivery, and a person is told', async () => {
      alerts.length = 0;
      for (let attempt = 1; attempt <= 5; attempt += 1)
        expect(await deliver(grant('r14', { failures: 99 }))).toBe(FAILED);
      expect(await receiver.event('r14')).toMatchObject({ state: 'pending' });
      expect(await deliver(grant('r14', { failures: 99 }))).toBe(OK);
      expect(await receiver.rows('r14')).toMatchObject([
        { state: 'dead', reason: 'attempts-exhausted', attempt: 5, error: 'attempt 5 fails' },
      ]);
      expect(await receiver.applied('r14')).toBe(0);
      expect(alerts).toMatchObject([{ kind: 'dead-letter', attempt: 5, event: { eventId: 'r14' } }]);
      expect(await deliver(grant('r14', { failures: 99 }))).toBe(DUPLICATE);
    });

    it('are as many as the source says', async () => {
      const request = grant('r14-two', { failures: 99 });
      const replies = [];
      for (let i = 0; i < 4; i += 1) replies.push(await receiver.deliver('twice', request));
      expect(replies).toEqual([FAILED, FAILED, OK, DUPLICATE]);
      expect(await receiver.rows('r14-two')).toMatchObject([{ state: 'dead', attempt: 2 }]);
    });

    it('are not given anew by a redelivery of the dead event: the provider’s retries are over', async () => {
      expect(await receiver.deliver('twice', grant('r14-two', { failures: 99 }))).toBe(DUPLICATE);
      expect(await receiver.event('r14-two')).toMatchObject({ state: 'dead' });
    });
  });

  describe('R22 a permanent failure', () => {
    it('is dead at once and answered 200, since a redelivery could not cure it', async () => {
      alerts.length = 0;
      expect(await deliver(grant('permanent', { permanent: true }))).toBe(OK);
      expect(await receiver.rows('permanent')).toMatchObject([
        {
          state: 'dead',
          reason: 'permanent-error',
          attempt: 1,
          error: expect.stringContaining('the grant is closed'),
        },
      ]);
      expect(await receiver.applied('permanent')).toBe(0);
      expect(alerts).toMatchObject([{ kind: 'dead-letter', reason: 'permanent-error' }]);
    });

    it('is what an unreadable body is', async () => {
      expect(await deliver(awardee('unreadable', 'grant.made', '{junk'))).toBe(OK);
      expect(await receiver.rows('unreadable')).toMatchObject([{ state: 'dead', reason: 'unreadable-body' }]);
    });
  });

  describe('two handlers of which one fails', () => {
    it('are answered 500, and the redelivery runs only the one that failed', async () => {
      const request = awardee('twofold', 'twofold', { failures: 1 });
      expect(await deliver(request)).toBe(FAILED);
      expect(await receiver.rows('twofold')).toMatchObject([
        { name: 'awardee/shaky', state: 'pending', attempt: 1 },
        { name: 'awardee/steady', state: 'done', attempt: 1 },
      ]);
      expect(await deliver(request)).toBe(OK);
      expect(
        await receiver.query(
          `SELECT source, applied_count FROM received_event WHERE event_id = 'twofold' ORDER BY 1`,
        ),
      ).toEqual([
        { source: 'shaky', applied_count: 1 },
        { source: 'steady', applied_count: 1 },
      ]);
    });
  });

  describe('a redelivery while the first is running', () => {
    it('is answered 503 with Retry-After, on any instance; the first answers ok, later ones duplicate', async () => {
      const request = grant('running', { hangs: true });
      const first = deliver(request);
      await until(() => latch('running').arrived > 0);
      for (const instance of [receiver, second, receiver]) {
        const reply = await instance.send({ path: '/webhooks/awardee', ...request });
        expect(answered(reply)).toBe(UNAVAILABLE);
        expect(reply.headers['retry-after']).toBe('5');
      }
      latch('running').open();
      expect(await first).toBe(OK);
      expect(await deliver(request, second)).toBe(DUPLICATE);
      expect(await receiver.applied('running')).toBe(1);
      expect(await receiver.rows('running')).toMatchObject([{ attempt: 1 }, { kind: 'effect' }]);
    });

    it('runs nothing twice however many come at once', async () => {
      const request = grant('crowd', { hangs: true });
      const replies = Array.from({ length: 10 }, (_, i) => deliver(request, i % 2 ? receiver : second));
      await until(() => latch('crowd').arrived > 0);
      latch('crowd').open();
      const all = await Promise.all(replies);
      expect(all.filter((reply) => reply === OK)).toHaveLength(1);
      expect(all.every((reply) => [OK, DUPLICATE, UNAVAILABLE].includes(reply))).toBe(true);
      expect(await receiver.applied('crowd')).toBe(1);
    });
  });

  describe('a handler that does not end in time', () => {
    it('is answered 500 within the acknowledgement time, leaves nothing, and is run again by the redelivery', async () => {
      const request = grant('hangs', { hangs: true });
      const startedAt = performance.now();
      expect(await receiver.deliver('hasty', request)).toBe(FAILED);
      expect(performance.now() - startedAt).toBeGreaterThan(1_400);
      expect(await receiver.rows('hangs')).toMatchObject([
        { state: 'pending', attempt: 1, leased_by: null, error: expect.stringContaining('1500 ms') },
      ]);
      expect(await receiver.applied('hangs')).toBe(0);

      latch('hangs').open();
      expect(await receiver.deliver('hasty', request)).toBe(OK);
      expect(await receiver.applied('hangs')).toBe(1);
      expect(await receiver.event('hangs')).toMatchObject({ outcome: 'hasty/hasty: done at attempt 2' });
    });
  });

  describe('a process that died in the middle', () => {
    const leaveLease = (id: string, ends: string) =>
      receiver.query(
        `UPDATE webhook_outbox SET leased_by = gen_random_uuid(), lease_until = now() + $2::interval WHERE event_id = $1`,
        [id, ends],
      );

    it('holds the event until its lease has ended, and then the redelivery takes it', async () => {
      expect(await deliver(grant('died', { failures: 1 }))).toBe(FAILED);
      await leaveLease('died', '5 s');
      expect(await deliver(grant('died', { failures: 1 }))).toBe(UNAVAILABLE);
      await leaveLease('died', '-1 s');
      expect(await deliver(grant('died', { failures: 1 }))).toBe(OK);
      expect(await receiver.applied('died')).toBe(1);
    });

    it('is replaced by our relay where no redelivery comes, and a person is told', async () => {
      alerts.length = 0;
      expect(await deliver(grant('nobody-came', { failures: 1 }))).toBe(FAILED);
      await receiver.query(
        `UPDATE webhook_outbox SET due_at = now(), lease_until = now() WHERE event_id = 'nobody-came'`,
      );
      await receiver.drain();
      expect(await receiver.event('nobody-came')).toMatchObject({ state: 'processed' });
      expect(alerts).toMatchObject([{ kind: 'not-redelivered', event: { eventId: 'nobody-came' } }]);
      expect(await deliver(grant('nobody-came', { failures: 1 }))).toBe(DUPLICATE);
    });
  });

  describe('while shutting down', () => {
    it('answers 503 and claims nothing, so that the redelivery finds another instance', async () => {
      const stopping = await Receiver.start({
        adapter,
        database,
        providers: [Handlers],
        webhooks: {
          sources: {
            awardee: awardeeSource({ retries: 'provider' }),
            patient: awardeeSource(),
            hasty: awardeeSource(),
            twice: awardeeSource(),
          },
        },
      });
      try {
        stopping.app.get(DeliveryRuns).startDraining();
        const refused = await stopping.send({ path: '/webhooks/awardee', ...grant('draining') });
        expect(answered(refused)).toBe(UNAVAILABLE);
        expect(await receiver.claims('draining')).toBe(0);
        // Under our own retries the event is taken in: another instance will run it.
        const taken = await stopping.send({ path: '/webhooks/patient', ...grant('draining-own') });
        expect([answered(taken), taken.headers['connection']]).toEqual([OK, 'close']);
        expect(await receiver.claims('draining-own')).toBe(1);
      } finally {
        await stopping.stop();
      }
      expect(await deliver(grant('draining'))).toBe(OK);
    });
  });
});
