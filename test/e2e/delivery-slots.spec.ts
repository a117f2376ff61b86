import { Controller, Injectable, Post } from '@nestjs/common';
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { DataSource } from 'typeorm';
import { OnWebhook, UseWebhook, type WebhooksOptions } from '../../src/index.js';
import { WEBHOOKS_DATA_SOURCE } from '../../src/core/tokens.js';
import { DeliverySlots, NoSlot } from '../../src/outbox/slots/delivery-slots.js';
import { until } from '../support/application.js';
import { Latch } from '../support/latch.js';
import { FAILED, OK, Receiver } from '../support/receiver.js';
import { awardee } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';
import { poolOf } from '../integration/support/pool.js';

const POOL = 10;
/** Of the slots: what the pool has beside the reserve of claims. */
const RESERVE = 3;
const DELIVERIES = 12;

let latch: Latch;
const hangs = () => latch.wait();
const passes = (value: unknown) => ({ value: value as object });
/** A Standard Schema whose check takes as long as the test wants. */
const schema = {
  '~standard': {
    version: 1 as const,
    vendor: 'test',
    validate: async (value: unknown) => {
      await hangs();
      return passes(value);
    },
  },
};
const hydrate = { key: ({ eventId }: { eventId: string }) => eventId, fetch: hangs };

@Injectable()
class Handlers {
  @OnWebhook('provider', '*')
  provider() {
    return hangs();
  }

  @OnWebhook('inline', '*', { inline: true })
  inline() {
    return hangs();
  }

  @OnWebhook('both', '*', { inline: true })
  both() {
    return hangs();
  }

  @OnWebhook('hydrated', '*', { hydrate })
  hydrated() {}

  @OnWebhook('checked', '*', { schema })
  checked() {}

  @OnWebhook('checked-inline', '*', { schema, inline: true })
  checkedInline() {}

  @OnWebhook('other', '*')
  other() {}
}

@Controller('routed')
class Routes {
  @Post()
  @UseWebhook('routed')
  routed() {
    return hangs();
  }
}

const SOURCES = ['provider', 'inline', 'both', 'hydrated', 'checked', 'checked-inline', 'routed'];
const sources = (ackTimeout?: string): WebhooksOptions['sources'] => {
  const options = { ackTimeout: ackTimeout as '1s' | undefined };
  return {
    provider: awardeeSource({ ...options, retries: 'provider' }),
    inline: awardeeSource(options),
    both: awardeeSource({ ...options, retries: 'provider' }),
    hydrated: awardeeSource({ ...options, retries: 'provider' }),
    checked: awardeeSource({ ...options, retries: 'provider' }),
    'checked-inline': awardeeSource(options),
    routed: awardeeSource({ ...options, retries: 'provider' }),
    other: awardeeSource(),
  };
};
const pathOf = (source: string) => (source === 'routed' ? '/routed' : `/webhooks/${source}`);
const request = (id: string) => awardee(id, 'grant.made', { id });

describe.each([
  ['a relay', true],
  ['no relay', false],
] as const)('what deliveries run, beside %s, leaves claims their connections', (_, relays) => {
  let receiver: Receiver;

  const start = (ackTimeout?: string) =>
    Receiver.start({
      poolSize: POOL,
      providers: [Handlers],
      controllers: [Routes],
      webhooks: { sources: sources(ackTimeout), relay: relays ? {} : false, claimTimeout: '3s' },
    });
  const flood = (source: string) =>
    Array.from({ length: DELIVERIES }, (__, n) =>
      receiver.deliverTo(pathOf(source), request(`${source}-${n}`)),
    );

  beforeEach(() => {
    latch = new Latch();
  });
  afterEach(async () => {
    latch.open();
    await receiver?.stop();
  });

  it('whatever runs: an unrelated source is served meanwhile, and those that waited for a slot have their turn', async () => {
    receiver = await start('30s');
    const pool = poolOf(receiver.app.get<DataSource>(WEBHOOKS_DATA_SOURCE));
    for (const source of SOURCES) {
      latch = new Latch();
      const answers = flood(source);
      await until(() => latch.arrived > 0);
      for (let n = 0; n < 4; n += 1)
        expect(await receiver.deliver('other', request(`${source}-o${n}`))).toBe(OK);
      await until(() => pool.waitingCount === 0);
      expect(latch.arrived).toBeLessThanOrEqual(POOL - RESERVE);
      latch.open();
      for (const answer of await Promise.all(answers)) expect(answer).toBe(OK);
      expect(latch.arrived).toBe(DELIVERIES);
    }
  }, 60_000);

  it('what finds no slot within its ackTimeout is answered as a time-out is, and no attempt is counted', async () => {
    receiver = await start('2s');
    for (const source of ['provider', 'inline', 'both', 'routed']) {
      latch = new Latch();
      const answers = await Promise.all(flood(source));
      expect(new Set(answers)).toEqual(new Set([source === 'inline' ? OK : FAILED]));
      expect(latch.arrived).toBeLessThan(DELIVERIES);
      const [row] = await receiver.query<{ waited: number; failed: number }>(
        `SELECT count(*) FILTER (WHERE attempt = attempt_base AND error IS NULL)::int AS waited,
                count(*) FILTER (WHERE attempt = attempt_base + 1 AND error LIKE '%did not end within%')::int AS failed
           FROM webhook_outbox WHERE source = $1 AND state = 'pending' AND leased_by IS NULL`,
        [source],
      );
      expect(row!.waited + row!.failed).toBe(DELIVERIES);
      expect(row!.waited).toBeGreaterThan(0);
      // Each event is claimed, and runs later: by the redelivery, or by the relay.
      expect(await receiver.query(`SELECT FROM webhook_claim WHERE source = $1`, [source])).toHaveLength(
        DELIVERIES,
      );
      latch.open();
      if (source !== 'inline')
        expect(await receiver.deliverTo(pathOf(source), request(`${source}-0`))).toBe(OK);
    }
  }, 60_000);
});

it('a run that would have less than half of its ackTimeout left does not begin', async () => {
  const receiver = await Receiver.start({
    poolSize: 4,
    providers: [Handlers],
    webhooks: { sources: sources() },
  });
  const slots = receiver.app.get(DeliverySlots);
  const work = { name: 'provider', source: 'provider' };
  latch = new Latch();
  const fills = slots.run(work, 10_000, () => latch.wait());
  const second = slots.run(work, 1_000, async () => 'begun').catch((error: unknown) => error);
  setTimeout(() => latch.open(), 600);
  const end = await second;
  await fills;
  await receiver.stop();
  expect(end).toBeInstanceOf(NoSlot);
});

it.each([4, 6])(
  'deliveries that queue for the slots of a pool of %d leave the relay one',
  async (poolSize) => {
    const busy = Array.from({ length: 4 }, (_, n) => `busy-${n}`);
    let handled = 0;
    @Injectable()
    class Own {
      @OnWebhook('other', '*')
      other() {
        handled += 1;
      }
    }
    const queueing = busy.map((source) => {
      @Injectable()
      class Busy {
        @OnWebhook(source, '*')
        busy() {
          return pause(20);
        }
      }
      return Busy;
    });
    const receiver = await Receiver.start({
      relayRuns: true,
      poolSize,
      providers: [Own, ...queueing],
      webhooks: {
        sources: {
          ...Object.fromEntries(busy.map((name) => [name, awardeeSource({ name, retries: 'provider' })])),
          other: awardeeSource(),
        },
      },
    });
    let ends = false;
    const sender = async (source: string, answered = new Set<string>()) => {
      while (!ends) answered.add(await receiver.deliver(source, request(randomUUID())));
      return answered;
    };
    const answers = busy.flatMap((source) => Array.from({ length: 3 }, () => sender(source)));
    try {
      expect(await receiver.deliver('other', request('one'))).toBe(OK);
      await until(() => handled > 0);
    } finally {
      ends = true;
      const all = await Promise.all(answers);
      await receiver.stop();
      for (const answer of all) expect([...answer]).toEqual([OK]);
    }
  },
  30_000,
);
