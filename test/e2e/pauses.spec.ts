import { Controller, Injectable, Post } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import {
  Event,
  OnWebhook,
  Operator,
  TxManager,
  UseWebhook,
  type HandlerContext,
  type PauseKind,
  type WebhookEvent,
} from '../../src/index.js';
import { answered, DUPLICATE, OK, Receiver, UNAVAILABLE } from '../support/receiver.js';
import { sesmetric } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';
import { hear } from '../support/statements.js';
import { record } from '../support/tables.js';

const ann = { by: 'ann', reason: 'deploy' };

@Controller('billing')
class Billing {
  @Post('invoices')
  @UseWebhook('routed', { name: 'route' })
  async invoice(@Event() event: WebhookEvent, @TxManager() manager: EntityManager) {
    await record(event, { manager });
  }
}

@Injectable()
class Handlers {
  @OnWebhook('own', '*', { name: 'inline', inline: true })
  async inline(event: WebhookEvent, { manager }: HandlerContext) {
    await record(event, { manager });
  }

  @OnWebhook('own', 'both', { name: 'inline-too', inline: true })
  async inlineToo(event: WebhookEvent, { manager }: HandlerContext) {
    await record({ ...event, source: 'inline-too' }, { manager });
  }

  @OnWebhook('provider', '*', { name: 'handle' })
  async handle(event: WebhookEvent, { manager }: HandlerContext) {
    await record(event, { manager });
  }

  @OnWebhook('provider', 'inline', { name: 'inline', inline: true })
  async providerInline(event: WebhookEvent, { manager }: HandlerContext) {
    await record({ ...event, source: 'inline' }, { manager });
  }
}

describe('a pause reaches what deliveries run', () => {
  let receiver: Receiver;
  beforeAll(async () => {
    receiver = await Receiver.start({
      providers: [Handlers],
      controllers: [Billing],
      webhooks: {
        sources: {
          own: sesmetricSource(),
          provider: sesmetricSource({ retries: 'provider' }),
          routed: sesmetricSource(),
        },
      },
    });
  });
  afterAll(() => receiver?.stop());

  const paths: Record<string, string> = { routed: '/billing/invoices' };
  const send = (source: string, id: string, type = 'one') =>
    receiver.send({ path: paths[source] ?? `/webhooks/${source}`, ...sesmetric({ id, type }) });
  const deliver = async (...of: Parameters<typeof send>) => answered(await send(...of));
  const during = async (kind: PauseKind, name: string, work: () => Promise<void>) => {
    await receiver.app.get(Operator).pause(kind, name, ann);
    await work();
    await receiver.app.get(Operator).resume(kind, name, ann);
  };

  it.each([
    ['source', 'own'],
    ['handler', 'own/inline'],
  ] as const)('inline under our own retries: a paused %s is left to the relay', async (kind, name) => {
    const id = `own-${kind}`;
    await during(kind, name, async () => {
      expect(await deliver('own', id)).toBe(OK);
      expect(await deliver('own', id)).toBe(DUPLICATE);
      await receiver.drain();
      expect(await receiver.applied(id)).toBe(0);
      expect(await receiver.rows(id)).toMatchObject([{ state: 'pending', attempt: 0, leased_by: null }]);
    });
    await receiver.drain();
    expect(await receiver.event(id)).toMatchObject({ state: 'processed' });
    expect(await receiver.applied(id)).toBe(1);
  });

  it('inline: the others of an event run, in its claim’s transaction', async () => {
    await during('handler', 'own/inline-too', async () => {
      expect(await deliver('own', 'both', 'both')).toBe(OK);
      expect((await receiver.rows('both')).map(({ name, state }) => [name, state])).toEqual([
        ['own/inline', 'done'],
        ['own/inline-too', 'pending'],
      ]);
    });
    await receiver.drain();
    expect(await receiver.event('both')).toMatchObject({ state: 'processed' });
  });

  it.each([
    ['source', 'provider', 'one'],
    ['handler', 'provider/handle', 'one'],
    ['handler', 'provider/inline', 'inline'],
  ] as const)(
    'what the provider retries: under a paused %s %s an event is kept, and run once after it though it never comes again',
    async (kind, name, type) => {
      const id = `provider-${kind}-${type}`;
      await during(kind, name, async () => {
        expect(await deliver('provider', id, type)).toBe(OK);
        const again = await send('provider', id, type);
        expect(answered(again)).toBe(UNAVAILABLE);
        expect(Number(again.headers['retry-after'])).toBeGreaterThan(0);
        await receiver.drain();
        const waiting = (await receiver.rows(id)).filter(({ state }) => state === 'pending');
        expect(waiting).toMatchObject([{ attempt: 0, leased_by: null }]);
        expect((await receiver.event(id))!.state).toBe('pending');
      });
      await receiver.drain();
      expect(await receiver.event(id)).toMatchObject({ state: 'processed' });
      // Each of its handlers once.
      expect(await receiver.applied(id)).toBe(type === 'inline' ? 2 : 1);
      expect(await deliver('provider', id, type)).toBe(DUPLICATE);
    },
  );

  it.each([
    ['routed', 'source', 'routed', 'one'],
    ['routed', 'handler', 'routed/route', 'one'],
  ] as const)(
    'a route: %s, a paused %s %s answers 503, and the redelivery runs it',
    async (source, kind, name, type) => {
      const id = `${source}-${kind}-${type}`;
      await during(kind, name, async () => {
        const reply = await send(source, id, type);
        expect(answered(reply)).toBe(UNAVAILABLE);
        expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0);
        expect(await receiver.claims(id)).toBe(0);
      });
      expect(await deliver(source, id, type)).toBe(OK);
      expect(await receiver.event(id)).toMatchObject({ state: 'processed' });
    },
  );

  it('is read at most once a second, however many deliveries ask', async () => {
    await hear(receiver.app.get(DataSource), async (heard) => {
      const reads = () => heard.filter(({ sql }) => sql.includes('FROM webhook_pause')).length;
      const startedAt = performance.now();
      let sent = 0;
      for (; reads() < 2; sent += 1) await deliver('provider', `many-${sent}`);
      const seconds = (performance.now() - startedAt) / 1_000;
      expect(reads()).toBeLessThanOrEqual(1 + seconds);
      expect(sent).toBeGreaterThan(reads());
    });
  });
});
