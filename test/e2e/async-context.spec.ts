import { AsyncLocalStorage } from 'node:async_hooks';
import type { EventEmitter } from 'node:events';
import { setTimeout as pause } from 'node:timers/promises';
import { Controller, Injectable, Post, type INestApplication } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import {
  cachedSecrets,
  Event,
  OnEffect,
  OnWebhook,
  OutboxRelay,
  TxManager,
  UseWebhook,
  type BatchEvent,
  type EffectContext,
  type HandlerContext,
  type RunInfo,
  type WebhookEvent,
} from '../../src/index.js';
import { LeasedWork } from '../../src/outbox/relay/leased-work.js';
import { WEBHOOKS_DATA_SOURCE } from '../../src/core/tokens.js';
import { ADAPTERS, until } from '../support/application.js';
import { OK, Receiver } from '../support/receiver.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';

/** Of a request, as a middleware opens it. */
const request = new AsyncLocalStorage<string>();
/** Of a run, as `around` opens it. */
const run = new AsyncLocalStorage<RunInfo>();
/** What a place of the application's code saw: the request's store, and the event that it was about. */
const seen: { way: string; event: string; request?: string; run?: string }[] = [];
const EVENTS = 10;

async function look(way: string, event: string): Promise<void> {
  for (const place of ['', ' after a timer']) {
    seen.push({ way: way + place, event, request: request.getStore(), run: run.getStore()?.eventId });
    await pause(1);
  }
}

@Injectable()
class Handlers {
  @OnWebhook('relayed', '*', {
    name: 'relayed',
    hydrate: { key: () => 'one', fetch: async () => look('fetch', 'shared') },
  })
  async relayed({ eventId }: WebhookEvent, { enqueue, manager, signal }: HandlerContext) {
    signal.addEventListener('abort', () => void look('aborted', eventId));
    await look('handler', eventId);
    await manager.query(`DO $$ BEGIN RAISE NOTICE 'told'; END $$`);
    await enqueue('sent', { eventId });
  }

  @OnWebhook('relayed', '*', { name: 'batch', batch: 5 })
  async batch([first]: readonly BatchEvent[]) {
    await look('batch', first!.eventId);
  }

  @OnWebhook('relayed', '*', { name: 'retried', retry: { base: 1 } })
  async retried({ eventId }: WebhookEvent, { attempt }: HandlerContext) {
    await look('retried', eventId);
    if (attempt === 1) throw new Error('once more');
  }

  @OnEffect('sent', {
    probe: async ({ eventId }: { eventId: string }) => (await look('probe', eventId), 'not-done'),
    probeFirst: true,
  })
  async sent({ eventId }: { eventId: string }, { complete }: EffectContext) {
    await look('effect', eventId);
    await complete(() => look('complete', eventId));
  }

  @OnWebhook('inline', '*', { inline: true })
  async inline({ eventId }: WebhookEvent) {
    await look('inline', eventId);
  }

  @OnWebhook('waits', '*')
  async waits({ eventId }: WebhookEvent) {
    await look('waits', eventId);
  }
}

@Controller('route')
class Route {
  @Post()
  @UseWebhook('route')
  async handle(@Event() { eventId }: WebhookEvent, @TxManager() _manager: EntityManager) {
    await look('route', eventId);
  }
}

describe.each(ADAPTERS)('A6 async contexts, on %s', (adapter) => {
  let receiver: Receiver;

  beforeAll(async () => {
    receiver = await Receiver.start({
      adapter,
      relayRuns: true,
      poolSize: 5,
      providers: [Handlers],
      controllers: [Route],
      configure: (app: INestApplication) =>
        app.use((incoming: { headers: Record<string, string> }, _response: unknown, next: () => void) =>
          request.run(incoming.headers['x-awardee-delivery']!, next),
        ),
      webhooks: {
        sources: {
          relayed: awardeeSource({
            secrets: cachedSecrets({
              key: () => 'one',
              load: async () => (await look('secrets', 'shared'), [AWARDEE_SECRET]),
            }),
          }),
          // Without a place in time the relay would run it.
          inline: awardeeSource({ ackTimeout: '40s' }),
          waits: awardeeSource({ retries: 'provider', ackTimeout: '40s' }),
          route: awardeeSource({ ackTimeout: '40s' }),
        },
        around: (code, info) => run.run(info, code),
        reconcile: false,
        retention: false,
      },
    });
    const listen = (client: EventEmitter) =>
      client.on('notice', () =>
        seen.push({ way: 'notice', event: '', request: request.getStore(), run: run.getStore()?.eventId }),
      );
    const pool: EventEmitter = receiver.app.get<DataSource & { driver: { master: EventEmitter } }>(
      WEBHOOKS_DATA_SOURCE,
    ).driver.master;
    pool.on('connect', (client: EventEmitter) => {
      seen.push({ way: 'connect', event: '', request: request.getStore() });
      listen(client);
    });
  });
  afterAll(() => receiver?.stop());

  it('each place sees its own request or none, and the context that `around` opened', async () => {
    const deliver = async (source: string, index: number) => {
      const path = source === 'route' ? '/route' : `/webhooks/${source}`;
      expect(await receiver.deliverTo(path, awardee(`${source}-${index}`, 'grant.made', {}))).toBe(OK);
    };
    const all = Array.from({ length: EVENTS }, (_, index) =>
      ['relayed', 'inline', 'waits', 'route'].map((source) => deliver(source, index)),
    );
    await Promise.all(all.flat());
    const rounds = receiver.app.get(LeasedWork);
    await until(async () => {
      const rows = await receiver.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM webhook_outbox WHERE state = 'pending'`,
      );
      return rows[0]!.n === 0 && rounds.running === 0;
    });

    const ways = new Set(seen.map(({ way }) => way.replace(' after a timer', '')));
    const expected = [
      'batch',
      'complete',
      'connect',
      'effect',
      'fetch',
      'handler',
      'inline',
      'notice',
      'probe',
    ];
    expect([...ways].sort()).toEqual([...expected, 'retried', 'route', 'secrets', 'waits']);
    const inDelivery = /^(inline|route|waits)/;
    const leaks = seen.filter(({ way, event, request: store }) =>
      inDelivery.test(way) ? store !== event : store !== undefined,
    );
    expect(leaks.map(({ way, request: store }) => `${way}: ${store}`)).toEqual([]);
    const foreign = seen.filter(
      ({ way, event, run: opened }) => !/^(fetch|secrets|notice|connect)/.test(way) && opened !== event,
    );
    expect(foreign).toEqual([]);
  });
});

describe('A6 `around`', () => {
  it.each<[string, (code: () => Promise<unknown>, info: RunInfo) => unknown, string]>([
    ['does not call `run`: the row is not done', () => undefined, 'dead'],
    ['does not wait for `run`: it is waited for all the same', (code) => void code(), 'done'],
    ['calls `run` twice: the work is done once', (code) => Promise.all([code(), code()]), 'done'],
    [
      'throws after `run`: the attempt has failed',
      async (code) => {
        await code();
        throw new Error('its own commit failed');
      },
      'pending',
    ],
    [
      'swallows the failure of `run`: it is one all the same',
      (code, { attempt }) =>
        code()
          .then(() => {
            throw new Error(String(attempt));
          })
          .catch(() => undefined),
      'done',
    ],
  ])('that %s', async (_name, around, state) => {
    let runs = 0;
    @Injectable()
    class Once {
      @OnWebhook('one', '*', { name: 'once' })
      async handle() {
        await pause(1);
        runs += 1;
      }
    }
    const receiver = await Receiver.start({
      providers: [Once],
      webhooks: { sources: { one: awardeeSource() }, around, reconcile: false, retention: false },
    });
    try {
      await receiver.deliver('one', awardee('1', 't', {}));
      await receiver.app.get(OutboxRelay).tick();
      expect(await receiver.query(`SELECT state FROM webhook_outbox`)).toEqual([{ state }]);
      expect(runs).toBe(around.length === 0 ? 0 : 1);
    } finally {
      await receiver.stop();
    }
  });
});
