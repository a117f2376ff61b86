import {
  BadRequestException,
  ForbiddenException,
  Injectable,
  ServiceUnavailableException,
} from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  type Alert,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { ADAPTERS, until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import { DUPLICATE, OK, Receiver } from '../support/receiver.js';
import { awardee, type SignedRequest } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';
import { record } from '../support/tables.js';

interface Grant {
  readonly amount?: number;
  /** How many attempts of the handler fail before one does not. */
  readonly failures?: number;
  /** How many attempts of the effect fail before one does not. */
  readonly effectFailures?: number;
  /** What the handler throws. */
  readonly throws?: keyof typeof ERRORS;
}

/** What a handler meets: name, error, and whether trying again can help. */
const ERRORS = {
  'a lost connection': {
    error: () => Object.assign(new Error('reset'), { code: 'ECONNRESET' }),
    dead: false,
  },
  'a time-out of the downstream': { error: () => new ServiceUnavailableException(), dead: false },
  'a 429': { error: () => Object.assign(new Error('slow down'), { status: 429 }), dead: false },
  'a serialization failure': {
    error: () => Object.assign(new Error('again'), { code: '40001' }),
    dead: false,
  },
  'no error at all': { error: () => undefined, dead: false },
  'a text': { error: () => 'it broke', dead: false },
  'an error nobody knows': { error: () => new Error('hm'), dead: false },
  'a validation error': { error: () => new BadRequestException('amount must be positive'), dead: true },
  'a downstream 403 for ever': { error: () => new ForbiddenException(), dead: true },
  'an axios-like 404': {
    error: () => Object.assign(new Error('gone'), { response: { status: 404 } }),
    dead: true,
  },
  'a broken business rule': { error: () => new PermanentError('the grant is closed'), dead: true },
} as const satisfies Record<string, { error: () => unknown; dead: boolean }>;

let held = new Latch();
const sent: { key: string; payload: unknown; attempt: number }[] = [];

@Injectable()
class Handlers {
  @OnWebhook('awardee', 'grant.*', { name: 'grant', retry: { base: 0, cap: 0, maxAttempts: 3 } })
  async grant(event: WebhookEvent<Grant>, { manager, enqueue, attempt }: HandlerContext) {
    await record(event, { manager });
    await enqueue('mail', { to: event.eventId, failures: event.payload.effectFailures ?? 0 });
    if (event.payload.throws) throw ERRORS[event.payload.throws].error();
    if (attempt <= (event.payload.failures ?? 0)) throw new Error(`attempt ${attempt} fails`);
    return `granted ${event.payload.amount ?? 0}`;
  }

  @OnWebhook('awardee', 'orphan', { name: 'orphan' })
  async orphan(_: WebhookEvent, { manager }: HandlerContext) {
    await manager.query(`INSERT INTO child (parent) VALUES (1)`);
  }

  @OnWebhook('awardee', 'twofold', { name: 'first' })
  async first() {
    return 'one';
  }

  @OnWebhook('awardee', 'twofold', { name: 'second', retry: { base: 0, cap: 0 } })
  async second(event: WebhookEvent<Grant>, { attempt }: HandlerContext) {
    if (attempt <= (event.payload.failures ?? 0)) throw new Error('not yet');
    return 'two';
  }

  @OnWebhook('awardee', 'slow', { name: 'slow' })
  async slow() {
    await held.wait();
  }

  @OnEffect('mail', { retry: { base: 0, cap: 0, maxAttempts: 3 } })
  async mail(payload: { failures: number }, { key, attempt }: EffectContext) {
    sent.push({ key, payload, attempt });
    if (attempt <= payload.failures) throw new Error('mail server away');
    return { messageId: key };
  }
}

describe.each(ADAPTERS)('retries: "own" over HTTP on %s', (adapter) => {
  let receiver: Receiver;
  const alerts: Alert[] = [];
  const grant = (id: string, payload: Grant = {}) => awardee(id, 'grant.made', payload);
  const deliver = (request: SignedRequest) => receiver.deliver('awardee', request);

  beforeAll(async () => {
    sent.length = 0;
    receiver = await Receiver.start({
      adapter,
      providers: [Handlers],
      webhooks: { sources: { awardee: awardeeSource() }, onAlert: (alert) => void alerts.push(alert) },
    });
    await receiver.query(
      `CREATE TABLE parent (id int PRIMARY KEY); CREATE TABLE child (parent int REFERENCES parent)`,
    );
  });
  afterAll(() => receiver?.stop());

  it('goes from a signed request to a side effect', async () => {
    expect(await deliver(grant('happy', { amount: 5 }))).toBe(OK);
    expect(await receiver.drain()).toMatchObject({ leased: 2, done: 2 });
    expect(await receiver.event('happy')).toMatchObject({
      state: 'processed',
      outcome: 'awardee/grant: granted 5',
    });
    expect(await receiver.applied('happy')).toBe(1);
    expect(await receiver.rows('happy')).toMatchObject([
      { kind: 'handler', name: 'awardee/grant', state: 'done', attempt: 1 },
      { kind: 'effect', name: 'mail', state: 'done', attempt: 1 },
    ]);
    expect(sent.at(-1)).toMatchObject({ payload: { to: 'happy' } });
  });

  describe('R03 and R13 a first delivery whose handler fails', () => {
    it('leaves the event owed and nothing written, so that the next attempt does all of it', async () => {
      expect(await deliver(grant('r03', { failures: 1 }))).toBe(OK);
      expect(await receiver.relay.tick()).toMatchObject({ retried: 1 });
      expect(await receiver.applied('r03')).toBe(0);
      expect(await receiver.rows('r03')).toMatchObject([
        { kind: 'handler', state: 'pending', attempt: 1, leased_by: null, error: 'attempt 1 fails' },
      ]);
      await receiver.drain();
      expect(await receiver.applied('r03')).toBe(1);
      expect(await receiver.event('r03')).toMatchObject({ state: 'processed' });
    });
  });

  describe('case 2 the provider retries after a failed handler', () => {
    it('makes one record and one effect, though the redelivery is told "duplicate"', async () => {
      expect(await deliver(grant('c2', { failures: 2 }))).toBe(OK);
      await receiver.relay.tick();
      expect(await deliver(grant('c2', { failures: 2 }))).toBe(DUPLICATE);
      await receiver.drain();
      expect(await deliver(grant('c2', { failures: 2 }))).toBe(DUPLICATE);
      await receiver.drain();
      expect(await receiver.applied('c2')).toBe(1);
      expect((await receiver.rows('c2')).filter((row) => row.kind === 'effect')).toHaveLength(1);
      expect(sent.filter(({ payload }) => (payload as { to: string }).to === 'c2')).toHaveLength(1);
    });
  });

  describe('R22 errors are classified', () => {
    it.each(Object.keys(ERRORS) as (keyof typeof ERRORS)[])('%s', async (name) => {
      const id = `r22 ${name}`;
      expect(await deliver(grant(id, { throws: name }))).toBe(OK);
      await receiver.relay.tick();
      const state = ERRORS[name].dead
        ? { state: 'dead', reason: 'permanent-error', attempt: 1 }
        : { state: 'pending', reason: null, attempt: 1 };
      expect(await receiver.rows(id)).toMatchObject([state]);
      expect(await receiver.applied(id)).toBe(0);
    });

    it('a foreign key to a row that was deleted: dead at once', async () => {
      expect(await deliver(awardee('r22-fk', 'orphan', {}))).toBe(OK);
      await receiver.relay.tick();
      expect(await receiver.rows('r22-fk')).toMatchObject([
        { state: 'dead', reason: 'permanent-error', error: expect.stringContaining('foreign key') },
      ]);
    });

    it('a body that cannot be read: kept, and dead as unreadable', async () => {
      expect(await deliver(awardee('r22-junk', 'grant.made', '{junk'))).toBe(OK);
      await receiver.relay.tick();
      expect(await receiver.rows('r22-junk')).toMatchObject([{ state: 'dead', reason: 'unreadable-body' }]);
      const [claim] = await receiver.query<{ body: Buffer }>(
        `SELECT body FROM webhook_claim WHERE event_id = 'r22-junk'`,
      );
      expect(claim!.body.toString()).toBe('{junk');
    });
  });

  describe('R14 dead letters', () => {
    it('are made after the attempts allowed, with payload, last error, attempts and time; and a person is told', async () => {
      alerts.length = 0;
      expect(await deliver(grant('r14', { amount: 3, failures: 99 }))).toBe(OK);
      await receiver.drain();
      const [row] = await receiver.query(
        `SELECT o.*, c.body FROM webhook_outbox o JOIN webhook_claim c USING (source, tenant, event_id) WHERE event_id = 'r14'`,
      );
      expect(row).toMatchObject({
        state: 'dead',
        reason: 'attempts-exhausted',
        attempt: 3,
        error: 'attempt 3 fails',
        settled_at: expect.any(Date),
        body: Buffer.from('{"amount":3,"failures":99}'),
      });
      expect(await receiver.event('r14')).toMatchObject({
        state: 'dead',
        outcome: 'awardee/grant: attempts-exhausted',
      });
      expect(alerts).toContainEqual({
        kind: 'dead-letter',
        outboxId: row!['id'],
        name: 'awardee/grant',
        attempt: 3,
        reason: 'attempts-exhausted',
        error: 'attempt 3 fails',
        event: { source: 'awardee', tenant: '', eventId: 'r14' },
      });
    });

    it('raise an alarm when there are ten, and again only after a person has cleared some', async () => {
      await receiver.query(`DELETE FROM webhook_outbox WHERE state = 'dead'`);
      const die = async (...ids: string[]) => {
        await Promise.all(ids.map((id) => deliver(grant(`r14-${id}`, { throws: 'a broken business rule' }))));
        await receiver.drain();
      };
      const alarms = () => alerts.filter(({ kind }) => kind === 'dead-letters');
      await die('1');
      alerts.length = 0;
      await die('2', '3', '4', '5', '6', '7', '8', '9', '10');
      await until(() => alarms().length > 0);
      await die('11', '12');
      expect(alarms()).toEqual([{ kind: 'dead-letters', count: 10, threshold: 10 }]);
    });
  });

  describe('R18 and R27 the outcome is recorded', () => {
    it('as processed, with the result summary of each handler', async () => {
      await deliver(awardee('r27', 'twofold', {}));
      await receiver.drain();
      expect(await receiver.event('r27')).toMatchObject({
        state: 'processed',
        outcome: 'awardee/first: one; awardee/second: two',
        processed_at: expect.any(Date),
      });
    });

    it('as skipped, with the reason, where no handler matches', async () => {
      expect(await deliver(awardee('r27-skipped', 'nobody.cares', {}))).toBe(OK);
      expect(await receiver.event('r27-skipped')).toMatchObject({
        state: 'skipped',
        owed: 0,
        outcome: 'no handler matched',
      });
      expect(await deliver(awardee('r27-skipped', 'nobody.cares', {}))).toBe(DUPLICATE);
    });

    it('as pending as long as one of two handlers is, which alone is tried again', async () => {
      await deliver(awardee('r27-half', 'twofold', { failures: 1 }));
      expect(await receiver.relay.tick()).toMatchObject({ done: 1, retried: 1 });
      expect(await receiver.event('r27-half')).toMatchObject({ state: 'pending', processed_at: null });
      expect(await receiver.relay.tick()).toMatchObject({ leased: 1, done: 1 });
      expect(await receiver.event('r27-half')).toMatchObject({ state: 'processed' });
    });
  });

  describe('R36 the downstream idempotency key', () => {
    it('is the effect’s outbox id, the same at each attempt, with the same payload', async () => {
      await deliver(grant('r36', { failures: 1, effectFailures: 2 }));
      await receiver.drain();
      const tries = sent.filter(({ payload }) => (payload as { to: string }).to === 'r36');
      const [, effect] = await receiver.rows('r36');
      expect(tries.map(({ attempt }) => attempt)).toEqual([1, 2, 3]);
      expect(new Set(tries.map(({ key }) => key))).toEqual(new Set([effect!.id]));
      expect(new Set(tries.map(({ payload }) => JSON.stringify(payload))).size).toBe(1);
      expect(effect).toMatchObject({ state: 'done', attempt: 3 });
    });
  });

  describe('R06 and case 37 a manual redelivery of a dead event', () => {
    it('gives its handlers new attempts, once; a later one changes nothing', async () => {
      expect(await deliver(grant('c37', { failures: 4 }))).toBe(OK);
      await receiver.drain();
      expect(await receiver.event('c37')).toMatchObject({ state: 'dead' });

      expect(await deliver(grant('c37', { failures: 4 }))).toBe(DUPLICATE);
      expect(await receiver.event('c37')).toMatchObject({ state: 'pending' });
      await receiver.drain();
      expect(await receiver.rows('c37')).toMatchObject([
        { kind: 'handler', state: 'done', attempt: 5 },
        { kind: 'effect', state: 'done' },
      ]);
      expect(await receiver.applied('c37')).toBe(1);
      expect(await deliver(grant('c37', { failures: 4 }))).toBe(DUPLICATE);
      expect(await receiver.drain()).toMatchObject({ leased: 0 });
    });

    it('does not go on for ever: what died again stays dead', async () => {
      expect(await deliver(grant('c37-again', { failures: 99 }))).toBe(OK);
      await receiver.drain();
      for (const attempt of [6, 6]) {
        expect(await deliver(grant('c37-again', { failures: 99 }))).toBe(DUPLICATE);
        await receiver.drain();
        expect(await receiver.rows('c37-again')).toMatchObject([{ state: 'dead', attempt }]);
      }
    });

    it('revives no effect: it may have happened', async () => {
      expect(await deliver(grant('c37-effect', { effectFailures: 99 }))).toBe(OK);
      await receiver.drain();
      const dead = [
        { kind: 'handler', state: 'done' },
        { kind: 'effect', state: 'dead', attempt: 3 },
      ];
      expect(await receiver.rows('c37-effect')).toMatchObject(dead);
      expect(await deliver(grant('c37-effect', { effectFailures: 99 }))).toBe(DUPLICATE);
      await receiver.drain();
      expect(await receiver.rows('c37-effect')).toMatchObject(dead);
    });
  });

  describe('R20 the answer', () => {
    it('comes before the handler ends', async () => {
      held = new Latch();
      expect(await deliver(awardee('r20', 'slow', {}))).toBe(OK);
      const running = receiver.relay.tick();
      await until(() => held.arrived > 0);
      expect(await receiver.event('r20')).toMatchObject({ state: 'pending' });
      expect(await deliver(awardee('r20', 'slow', {}))).toBe(DUPLICATE);
      held.open();
      expect(await running).toMatchObject({ done: 1 });
      expect(await receiver.event('r20')).toMatchObject({ state: 'processed' });
    });
  });
});

describe.each(ADAPTERS)('the relay’s own loop on %s', (adapter) => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start({
      adapter,
      relayRuns: true,
      providers: [Handlers],
      webhooks: { sources: { awardee: awardeeSource() }, relay: { pollInterval: '1h' } },
    });
  });
  afterAll(() => receiver?.stop());

  it('R20 and R35 is woken by the commit, and tries again what failed', async () => {
    expect(await receiver.deliver('awardee', awardee('loop', 'grant.made', { failures: 2 }))).toBe(OK);
    await until(async () => (await receiver.event('loop'))?.state === 'processed');
    expect(await receiver.applied('loop')).toBe(1);
    await until(async () => (await receiver.rows('loop')).every(({ state }) => state === 'done'));
  });
});
