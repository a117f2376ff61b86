import { Injectable } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { ADAPTERS, until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import { answered, DUPLICATE, FAILED, OK, Receiver, UNAVAILABLE } from '../support/receiver.js';
import { sesmetric } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';
import { record } from '../support/tables.js';

interface Scripted {
  readonly failures?: number;
  readonly permanent?: boolean;
  /** The first attempt waits for a latch of the event's name. */
  readonly hangs?: boolean;
  /** A query fails and the handler goes on as if it had not. */
  readonly swallows?: boolean;
  /** The handler that is not inline fails this often. */
  readonly laterFailures?: number;
}

const latches = new Map<string, Latch>();
const latch = (name: string) => latches.get(name) ?? latches.set(name, new Latch()).get(name)!;

const retry = { base: 0, cap: 0 };

@Injectable()
class Handlers {
  @OnWebhook('own', '*', { name: 'inline', inline: true, retry })
  own(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('hasty', '*', { name: 'inline', inline: true, retry })
  hasty(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('provider', '*', { name: 'inline', inline: true })
  provider(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('hasty-provider', '*', { name: 'inline', inline: true })
  hastyProvider(event: WebhookEvent<Scripted>, context: HandlerContext) {
    return this.handle(event, context);
  }

  @OnWebhook('own', 'both', { name: 'inline-too', inline: true })
  async inlineToo(event: WebhookEvent, { manager }: HandlerContext) {
    await record({ ...event, source: 'inline-too' }, { manager });
  }

  @OnWebhook('own', 'both', { name: 'later', retry })
  async laterOwn(event: WebhookEvent<Scripted>, context: HandlerContext) {
    await this.handleLater(event, context);
  }

  @OnWebhook('provider', 'both', { name: 'later' })
  async laterProvider(event: WebhookEvent<Scripted>, context: HandlerContext) {
    await this.handleLater(event, context);
  }

  @OnEffect('mail')
  async mail() {}

  private async handle(event: WebhookEvent<Scripted>, { manager, enqueue, attempt }: HandlerContext) {
    await record(event, { manager });
    await enqueue('mail', { to: event.eventId });
    if (event.payload.hangs && attempt === 1) await latch(event.eventId).wait();
    if (event.payload.swallows && attempt === 1) await manager.query('SELECT 1 / 0').catch(() => undefined);
    if (event.payload.permanent) throw new PermanentError('never');
    if (attempt <= (event.payload.failures ?? 0)) throw new Error(`attempt ${attempt} fails`);
    return `attempt ${attempt}`;
  }

  private async handleLater(event: WebhookEvent<Scripted>, { manager, attempt }: HandlerContext) {
    await record({ ...event, source: 'later' }, { manager });
    if (attempt <= (event.payload.laterFailures ?? 0)) throw new Error('not yet');
  }
}

describe.each(ADAPTERS)('inline handlers over HTTP on %s', (adapter) => {
  let receiver: Receiver;

  beforeAll(async () => {
    latches.clear();
    receiver = await Receiver.start({
      adapter,
      providers: [Handlers],
      webhooks: {
        sources: {
          own: sesmetricSource(),
          hasty: sesmetricSource({ ackTimeout: '1200ms' }),
          provider: sesmetricSource({ retries: 'provider', maxAttempts: 2 }),
          'hasty-provider': sesmetricSource({ retries: 'provider', ackTimeout: '1200ms' }),
        },
      },
    });
  });
  afterAll(() => receiver?.stop());

  const deliver = (source: string, id: string, payload: Scripted = {}, type = 'one') =>
    receiver.deliver(source, sesmetric({ id, type, ...payload }));

  describe.each(['own', 'provider'])('retries: "%s"', (source) => {
    const id = (name: string) => `${source}-${name}`;

    it('R29 commits claim, work and completion together, before the answer', async () => {
      expect(await deliver(source, id('ok'))).toBe(OK);
      expect(await receiver.applied(id('ok'))).toBe(1);
      expect(await receiver.event(id('ok'))).toMatchObject({
        state: 'processed',
        outcome: `${source}/inline: attempt 1`,
      });
      expect(await receiver.rows(id('ok'))).toMatchObject([
        { kind: 'handler', state: 'done', attempt: 1 },
        { kind: 'effect', state: 'pending' },
      ]);
      expect(await deliver(source, id('ok'))).toBe(DUPLICATE);
      expect(await receiver.applied(id('ok'))).toBe(1);
    });

    it('R34 answers 503, not 2xx, to the same event while the first may still roll back', async () => {
      const first = deliver(source, id('race'), { hangs: true });
      await until(() => latch(id('race')).arrived > 0);
      const replies = await Promise.all(
        Array.from({ length: 12 }, () =>
          receiver.send({
            path: `/webhooks/${source}`,
            ...sesmetric({ id: id('race'), type: 'one', hangs: true }),
          }),
        ),
      );
      // More than the pool has connections: none of them held one while it waited.
      for (const reply of replies) {
        expect(answered(reply)).toBe(UNAVAILABLE);
        expect(reply.headers['retry-after']).toBe('5');
      }
      expect(await deliver(source, id('race-other'))).toBe(OK);
      latch(id('race')).open();
      expect(await first).toBe(OK);
      expect(await deliver(source, id('race'))).toBe(DUPLICATE);
      expect(await receiver.applied(id('race'))).toBe(1);
    });

    it('R22 makes a permanent failure dead at once, and answers 200', async () => {
      expect(await deliver(source, id('permanent'), { permanent: true })).toBe(OK);
      expect(await receiver.rows(id('permanent'))).toMatchObject([
        { state: 'dead', reason: 'permanent-error', attempt: 1 },
      ]);
      expect(await receiver.applied(id('permanent'))).toBe(0);
    });
  });

  describe('retries: "own"', () => {
    it('R35 rolls a failed handler back to its savepoint, answers 200, and has the relay try again', async () => {
      expect(await deliver('own', 'fails', { failures: 1 })).toBe(OK);
      expect(await receiver.applied('fails')).toBe(0);
      expect(await receiver.rows('fails')).toMatchObject([
        { kind: 'handler', state: 'pending', attempt: 1, leased_by: null, error: 'attempt 1 fails' },
      ]);
      expect(await deliver('own', 'fails', { failures: 1 })).toBe(DUPLICATE);
      expect(await receiver.applied('fails')).toBe(0);
      await receiver.drain();
      expect(await receiver.applied('fails')).toBe(1);
      expect(await receiver.event('fails')).toMatchObject({
        state: 'processed',
        outcome: 'own/inline: attempt 2',
      });
    });

    it('keeps what another inline handler of the event wrote', async () => {
      expect(await deliver('own', 'half', { failures: 1 }, 'both')).toBe(OK);
      const records = () =>
        receiver.query(
          `SELECT source, applied_count AS n FROM received_event WHERE event_id = 'half' ORDER BY 1`,
        );
      expect(await records()).toEqual([{ source: 'inline-too', n: 1 }]);
      await receiver.drain();
      expect(await records()).toEqual([
        { source: 'inline-too', n: 1 },
        { source: 'later', n: 1 },
        { source: 'own', n: 1 },
      ]);
    });

    it('leaves a handler that is not inline to the relay', async () => {
      expect(await deliver('own', 'mixed', {}, 'both')).toBe(OK);
      expect(await receiver.rows('mixed')).toMatchObject([
        { name: 'own/inline', state: 'done' },
        { name: 'own/inline-too', state: 'done' },
        { name: 'own/later', state: 'pending', attempt: 0 },
        { kind: 'effect', state: 'pending' },
      ]);
    });

    it('takes a swallowed query error for the failure it is', async () => {
      expect(await deliver('own', 'swallows', { swallows: true })).toBe(OK);
      expect(await receiver.applied('swallows')).toBe(0);
      expect(await receiver.rows('swallows')).toMatchObject([
        { kind: 'handler', state: 'pending', attempt: 1 },
      ]);
      await receiver.drain();
      expect(await receiver.applied('swallows')).toBe(1);
    });

    it('claims the event afresh, without its inline work, when time is up: 200, and the relay does it', async () => {
      const startedAt = performance.now();
      expect(await deliver('hasty', 'slow', { hangs: true })).toBe(OK);
      expect(performance.now() - startedAt).toBeGreaterThan(1_100);
      expect(await receiver.applied('slow')).toBe(0);
      expect(await receiver.event('slow')).toMatchObject({ state: 'pending', owed: 1 });
      latch('slow').open();
      await receiver.drain();
      expect(await receiver.applied('slow')).toBe(1);
      expect(await deliver('hasty', 'slow', { hangs: true })).toBe(DUPLICATE);
    });
  });

  describe('retries: "provider"', () => {
    it('R13 and R35 roll everything back, keep the claim with its failed attempt, and answer 500', async () => {
      expect(await deliver('provider', 'fails-p', { failures: 1 })).toBe(FAILED);
      expect(await receiver.applied('fails-p')).toBe(0);
      expect(await receiver.rows('fails-p')).toMatchObject([
        { kind: 'handler', state: 'pending', attempt: 1, leased_by: null, error: 'attempt 1 fails' },
      ]);
      expect(await deliver('provider', 'fails-p', { failures: 1 })).toBe(OK);
      expect(await receiver.applied('fails-p')).toBe(1);
      expect(await deliver('provider', 'fails-p', { failures: 1 })).toBe(DUPLICATE);
    });

    it('R14 make it dead and answer 200 when the attempts are used up', async () => {
      const replies = [];
      for (let i = 0; i < 4; i += 1) replies.push(await deliver('provider', 'exhausted', { failures: 99 }));
      expect(replies).toEqual([FAILED, FAILED, OK, DUPLICATE]);
      expect(await receiver.rows('exhausted')).toMatchObject([
        { state: 'dead', reason: 'attempts-exhausted', attempt: 2 },
      ]);
    });

    it('run again only what has not been done, inline or not', async () => {
      expect(await deliver('provider', 'mixed-p', { laterFailures: 1 }, 'both')).toBe(FAILED);
      expect(await receiver.rows('mixed-p')).toMatchObject([
        { name: 'provider/inline', state: 'done', attempt: 1 },
        { name: 'provider/later', state: 'pending', attempt: 1 },
        { kind: 'effect' },
      ]);
      expect(await deliver('provider', 'mixed-p', { laterFailures: 1 }, 'both')).toBe(OK);
      expect(
        await receiver.query(
          `SELECT source, applied_count AS n FROM received_event WHERE event_id = 'mixed-p' ORDER BY 1`,
        ),
      ).toEqual([
        { source: 'later', n: 1 },
        { source: 'provider', n: 1 },
      ]);
    });

    it('answer 500 when time is up, and the redelivery runs it again', async () => {
      expect(await deliver('hasty-provider', 'slow-p', { hangs: true })).toBe(FAILED);
      expect(await receiver.applied('slow-p')).toBe(0);
      expect(await receiver.rows('slow-p')).toMatchObject([
        { state: 'pending', attempt: 1, leased_by: null },
      ]);
      latch('slow-p').open();
      expect(await deliver('hasty-provider', 'slow-p', { hangs: true })).toBe(OK);
      expect(await receiver.applied('slow-p')).toBe(1);
    });
  });
});
