import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Controller, Injectable, Post, type INestApplication, type Type } from '@nestjs/common';
import {
  BackfillSource,
  Backfills,
  Inbox,
  OnWebhook,
  UseWebhook,
  github,
  stripe,
  type Alert,
  type BackfillEvent,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { GITHUB_SECRET, STRIPE_SECRET, githubEvent, stripeEvent } from '../support/signing.js';

interface StripeEvent {
  readonly id: string;
  readonly type: string;
  readonly created: number;
}
interface Page {
  readonly data: StripeEvent[];
  readonly has_more: boolean;
}

const HOUR = 3_600;
const now = () => Math.floor(Date.now() / 1_000);

/** The list endpoint of a provider: newest first, pages of 10, `starting_after`, `created[gte]`. */
class FakeProvider {
  readonly events: StripeEvent[] = [];
  requests = 0;
  failAfter = Infinity;
  private constructor(private readonly server: Server) {}

  static async start(): Promise<FakeProvider> {
    const server = createServer((request, response) => {
      const { searchParams } = new URL(request.url!, 'http://provider');
      provider.requests += 1;
      if (provider.requests > provider.failAfter) {
        response.writeHead(500).end();
        return;
      }
      const since = Number(searchParams.get('created[gte]'));
      const all = provider.events
        .filter(({ created }) => created >= since)
        .sort((a, b) => b.created - a.created || (a.id < b.id ? 1 : -1));
      const after = searchParams.get('starting_after');
      const from = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
      const page: Page = { data: all.slice(from, from + 10), has_more: all.length > from + 10 };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(page));
    });
    const provider = new FakeProvider(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return provider;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

let provider: FakeProvider;

@Injectable()
class Stripe {
  @BackfillSource('stripe')
  async *events(since: Date): AsyncGenerator<BackfillEvent> {
    for (let after = '', more = true; more;) {
      const query = new URLSearchParams({ 'created[gte]': String(Math.floor(since.getTime() / 1_000)) });
      if (after !== '') query.set('starting_after', after);
      const response = await fetch(`${provider.origin}/v1/events?${query.toString()}`);
      if (!response.ok) throw new Error(`the provider answered ${response.status}`);
      const { data, has_more } = (await response.json()) as Page;
      for (const body of data) yield { body };
      after = data.at(-1)?.id ?? '';
      more = has_more;
    }
  }

  @BackfillSource('github')
  async *deliveries(): AsyncGenerator<BackfillEvent> {
    yield {
      body: { action: 'opened' },
      headers: { 'X-GitHub-Delivery': 'g-1', 'X-GitHub-Event': 'issues' },
    };
    yield { body: Buffer.from('{"action": "closed"}'), headers: { 'X-GitHub-Event': 'issues' } };
  }
}

@Injectable()
class Handlers {
  @OnWebhook('stripe', '*')
  @OnWebhook('github', '*')
  async record({ source, eventId, type }: WebhookEvent, { manager }: HandlerContext) {
    await manager.query(
      `INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)
           ON CONFLICT (source, event_id) DO UPDATE SET applied_count = received_event.applied_count + 1`,
      [source, eventId, type],
    );
  }
}

describe('backfill from a provider over HTTP', () => {
  let database: TestDatabase;
  let app: INestApplication;
  let alerts: Alert[];

  const start = (providers: Type[], controllers: Type[] = []) =>
    createApplication({
      databaseUrl: database.url,
      webhooks: {
        sources: {
          stripe: stripe({ secrets: [STRIPE_SECRET] }),
          github: github({ secrets: [GITHUB_SECRET] }),
        },
        relay: { pollInterval: '100ms' },
        onAlert: (alert) => void alerts.push(alert),
      },
      providers,
      controllers,
    });

  beforeEach(async () => {
    database = await createDatabase();
    provider = await FakeProvider.start();
    alerts = [];
    app = await start([Handlers, Stripe]);
  });
  afterEach(async () => {
    await app.close();
    await provider.stop();
    await database.drop();
  });

  const webhook = (event: StripeEvent) => {
    const { headers, body } = stripeEvent(event.id, event.type, { live: true });
    return app.get(Inbox).receive('stripe', { headers, rawBody: body });
  };
  const happened = (id: string, ago: number): StripeEvent => {
    const event = { id, type: 'invoice.paid', created: now() - ago };
    provider.events.push(event);
    return event;
  };
  const backfills = () => app.get(Backfills);
  const since = (hours: number) => new Date(Date.now() - hours * HOUR * 1_000);
  const applied = () =>
    database.query<{ event_id: string; applied_count: number }>(
      `SELECT event_id, applied_count FROM received_event ORDER BY event_id`,
    );
  const origins = async () =>
    Object.fromEntries(
      (
        await database.query<{ origin: string; count: number }>(
          `SELECT origin, count(*)::int FROM webhook_claim GROUP BY origin`,
        )
      ).map(({ origin, count }) => [origin, count]),
    );

  it('R15: claims what no webhook has brought, page after page, and leaves the rest alone', async () => {
    for (let i = 0; i < 137; i += 1) {
      const event = happened(`evt_${String(i).padStart(3, '0')}`, i * 60);
      if (i % 3 !== 0) await webhook(event);
    }
    const report = await backfills().run('stripe', { since: since(24) });
    expect(report).toEqual({ seen: 137, claimed: 46, known: 91, tooOld: 0, unusable: 0 });
    expect(provider.requests).toBe(14);
    expect(await origins()).toEqual({ delivery: 91, backfill: 46 });
    await until(async () => (await applied()).length === 137);
    expect((await applied()).every(({ applied_count }) => applied_count === 1)).toBe(true);
  });

  it('goes on where a run was broken off, and finds nothing the second time', async () => {
    for (let i = 0; i < 250; i += 1) happened(`evt_${String(i).padStart(3, '0')}`, i);
    provider.failAfter = 15;
    await expect(backfills().run('stripe', { since: since(24) })).rejects.toThrow('answered 500');
    expect(await origins()).toEqual({ backfill: 100 });
    provider.failAfter = Infinity;
    expect(await backfills().run('stripe', { since: since(24) })).toMatchObject({ claimed: 150, known: 100 });
    expect(await backfills().run('stripe', { since: since(24) })).toMatchObject({ claimed: 0, known: 250 });
  });

  it('beside webhooks of the same events that arrive meanwhile, and a second run, handles each once', async () => {
    const events = Array.from({ length: 60 }, (_, i) => happened(`evt_${String(i).padStart(2, '0')}`, i));
    const [one, two] = await Promise.all([
      backfills().run('stripe', { since: since(1) }),
      backfills().run('stripe', { since: since(1) }),
      ...events.map((event) => webhook(event)),
    ]);
    const { delivery = 0, backfill = 0 } = await origins();
    expect(delivery + backfill).toBe(60);
    expect(one.claimed + two.claimed).toBe(backfill);
    await until(async () => (await applied()).length === 60);
    expect((await applied()).every(({ applied_count }) => applied_count === 1)).toBe(true);
  });

  it('is not compared byte for byte with the webhook that comes later', async () => {
    await backfills().run('github', { since: since(1) });
    const { headers, body } = githubEvent('g-1', 'issues', { action: 'opened', more: 'than the list' });
    await expect(app.get(Inbox).receive('github', { headers, rawBody: body })).resolves.toMatchObject({
      body: { status: 'duplicate' },
    });
    expect(alerts.filter(({ kind }) => kind === 'conflict')).toEqual([]);
    // Of two webhooks it is: the comparison is there.
    const first = githubEvent('g-2', 'issues', { action: 'opened' });
    const other = githubEvent('g-2', 'issues', { action: 'closed' });
    for (const { headers: sent, body: bytes } of [first, other])
      await app.get(Inbox).receive('github', { headers: sent, rawBody: bytes });
    expect(alerts.filter(({ kind }) => kind === 'conflict')).toHaveLength(1);
  });

  it('reads id and type from headers where the source does, and counts what has no id', async () => {
    expect(await backfills().run('github', { since: since(1) })).toEqual({
      seen: 2,
      claimed: 1,
      known: 0,
      tooOld: 0,
      unusable: 1,
    });
    expect(
      await database.query(`SELECT event_id, event_type, origin, verified_by FROM webhook_claim`),
    ).toEqual([{ event_id: 'g-1', event_type: 'issues', origin: 'backfill', verified_by: 'backfill' }]);
  });

  it('refuses a time before what claims are kept for, and skips events from before it', async () => {
    await expect(backfills().run('stripe', { since: since(24 * 40) })).rejects.toMatchObject({
      code: 'BACKFILL_REFUSED',
    });
    await expect(backfills().run('stripe', { since: new Date(Number.NaN) })).rejects.toMatchObject({
      code: 'BACKFILL_REFUSED',
    });
    expect(provider.requests).toBe(0);
    provider.events.push({ id: 'evt_old', type: 'invoice.paid', created: Number.MAX_SAFE_INTEGER });
    // The provider's filter and the event's own time need not agree.
    Object.defineProperty(provider.events[0], 'toJSON', {
      value: () => ({ id: 'evt_old', type: 'invoice.paid', created: now() - 40 * 24 * HOUR }),
    });
    expect(await backfills().run('stripe', { since: since(1) })).toMatchObject({
      seen: 1,
      claimed: 0,
      tooOld: 1,
    });
  });

  it('claims the others of a page beside one that PostgreSQL refuses, and ends with its error', async () => {
    for (const id of ['evt_a', 'evt_b', 'evt_c']) happened(id, 60);
    await database.query(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'refused on purpose' USING ERRCODE = '23514'; END $$`);
    await database.query(`CREATE TRIGGER refuse BEFORE INSERT ON webhook_claim FOR EACH ROW WHEN (NEW.event_id = 'evt_b')
      EXECUTE FUNCTION refuse()`);
    await expect(backfills().run('stripe', { since: since(1) })).rejects.toThrow('refused on purpose');
    await until(async () => (await applied()).length === 2);
    expect((await applied()).map(({ event_id }) => event_id)).toEqual(['evt_a', 'evt_c']);
  });

  it('stops between two events when asked, and tells how far it is', async () => {
    for (let i = 0; i < 300; i += 1) happened(`evt_${String(i).padStart(3, '0')}`, i);
    const controller = new AbortController();
    const report = await backfills().run('stripe', {
      since: since(24),
      signal: controller.signal,
      onProgress: ({ claimed }) => claimed >= 100 && controller.abort(),
    });
    expect(report.claimed).toBe(100);
    expect(provider.requests).toBeLessThan(13);
  });

  it('refuses a source that nothing lists, an unknown one, and one whose routes only a delivery can run', async () => {
    await expect(backfills().run('strip', { since: since(1) })).rejects.toMatchObject({
      code: 'UNKNOWN_SOURCE',
    });
    @Controller('own')
    class Routes {
      @Post()
      @UseWebhook('stripe')
      paid() {}
    }
    const other = await start([Handlers, Stripe], [Routes]);
    await expect(other.get(Backfills).run('stripe', { since: since(1) })).rejects.toMatchObject({
      message: expect.stringContaining('@UseWebhook') as string,
    });
    await other.close();
    const bare = await start([Handlers]);
    await expect(bare.get(Backfills).run('stripe', { since: since(1) })).rejects.toMatchObject({
      code: 'BACKFILL_REFUSED',
    });
    await bare.close();
  });

  it('two methods for one source, or one for an unknown source, stop the boot', async () => {
    @Injectable()
    class Twice {
      @BackfillSource('stripe')
      async *again(): AsyncGenerator<BackfillEvent> {}
    }
    await expect(start([Stripe, Twice])).rejects.toThrow(
      /source 'stripe' has two lists of events: Stripe\.\w+ @BackfillSource\('stripe'\) in \w+ and Twice\.again @BackfillSource\('stripe'\) in \w+\. One method lists/,
    );
    @Injectable()
    class Unknown {
      @BackfillSource('strip')
      async *list(): AsyncGenerator<BackfillEvent> {}
    }
    await expect(start([Unknown])).rejects.toThrow("did you mean 'stripe'?");
  });
});
