import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Injectable } from '@nestjs/common';
import { githubDeliveries, shopifyResources, stripeEvents } from '../../src/effects/index.js';
import {
  BackfillSource,
  Inbox,
  OnWebhook,
  Operator,
  github,
  shopify,
  stripe,
  type BackfillContext,
} from '../../src/index.js';
import { GapFinder } from '../../src/inbox/catch-up/gap.finder.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { GITHUB_SECRET, STRIPE_SECRET, stripeEvent } from '../support/signing.js';
import { clear, startInbox, type TestInbox } from './support/inbox.js';

const MINUTE = 60_000;
const ago = (minutes: number) => new Date(Date.now() - minutes * MINUTE);
const seconds = (at: Date) => Math.floor(at.getTime() / 1_000);
/** Answers as the lists of Stripe, GitHub and Shopify do, two items a page. */
const lists = {
  stripe: [] as { id: string; type: string; created: number }[],
  github: [] as { id: number; guid: string; delivered_at: string; status_code: number; event: string }[],
  shopify: [] as { id: number; admin_graphql_api_id: string; updated_at: string }[],
};
const asked: { readonly url: URL; readonly headers: IncomingHttpHeaders }[] = [];
let server: Server;
let origin: string;
/** Where a list says that its next page is. */
let nextOrigin: string;

function answer(url: URL): readonly [unknown, string?] {
  const { pathname, searchParams } = url;
  const page = <T>(all: readonly T[], from: number, next: string) =>
    [
      all.slice(from, from + 2),
      all.length > from + 2 ? `<${nextOrigin}${next}${from + 2}>; rel="next"` : undefined,
    ] as const;
  if (pathname === '/v1/events') {
    const from = lists.stripe.findIndex(({ id }) => id === searchParams.get('starting_after')) + 1;
    return [{ data: lists.stripe.slice(from, from + 2), has_more: lists.stripe.length > from + 2 }];
  }
  const whole = /\/deliveries\/(\d+)$/.exec(pathname);
  if (whole !== null) return [{ request: { payload: { delivery: Number(whole[1]) } } }];
  const from = Number(searchParams.get('cursor') ?? 0);
  if (pathname.endsWith('/deliveries')) return page(lists.github, from, `${pathname}?cursor=`);
  const [orders, next] = page(lists.shopify, from, `${pathname}?cursor=`);
  return [{ orders }, next];
}

@Injectable()
class Lists {
  @BackfillSource('stripe', { every: '1h', lookback: '3h' })
  stripe(since: Date, context: BackfillContext) {
    return stripeEvents(since, context, { apiKey: 'rk_1', url: origin });
  }

  @BackfillSource('github')
  github(since: Date, context: BackfillContext) {
    return githubDeliveries(since, context, { token: 'ghp_1', hook: 'repos/a/b/hooks/7', url: origin });
  }

  @BackfillSource('shopify')
  shopify(since: Date, context: BackfillContext) {
    return shopifyResources(since, context, {
      shop: 'a.myshopify.com',
      accessToken: 'shpat_1',
      topic: 'orders/updated',
      url: origin,
    });
  }

  @OnWebhook('stripe', '*')
  @OnWebhook('github', '*')
  @OnWebhook('shopify', '*')
  handle() {}
}

describe('gaps', () => {
  let database: TestDatabase;
  let inboxes: TestInbox[];
  const start = () =>
    startInbox({
      database,
      providers: [Lists],
      webhooks: {
        sources: {
          stripe: stripe({ secrets: [STRIPE_SECRET] }),
          github: github({ secrets: [GITHUB_SECRET] }),
          shopify: shopify({
            secrets: ['shpss_0123456789abcdef0123456789abcdef'],
            dedupe: [{ header: 'x-shopify-topic' }, { path: 'admin_graphql_api_id' }, { path: 'updated_at' }],
          }),
        },
      },
    });
  const finder = (at = 0) => inboxes[at]!.app.get(GapFinder);
  const told = () => inboxes.flatMap(({ alerts }) => alerts.filter(({ kind }) => kind === 'gaps-found'));
  const claimed = async () =>
    (await database.query<{ event_id: string }>(`SELECT event_id FROM webhook_claim ORDER BY event_id`)).map(
      ({ event_id }) => event_id,
    );

  beforeAll(async () => {
    server = createServer((request, response) => {
      const url = new URL(request.url!, origin);
      asked.push({ url, headers: request.headers });
      const [json, next] = answer(url);
      if (next !== undefined) response.setHeader('link', next);
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(json));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    database = await createDatabase();
    inboxes = [await start(), await start()];
  });
  beforeEach(() => {
    asked.length = 0;
    for (const { alerts } of inboxes) alerts.length = 0;
    nextOrigin = origin;
  });
  afterEach(() => clear(database));
  afterAll(async () => {
    await Promise.all(inboxes.map((inbox) => inbox.stop()));
    await database?.drop();
    server?.close();
  });

  const happened = (id: string, minutes: number) => ({
    id,
    type: 'invoice.paid',
    created: seconds(ago(minutes)),
  });

  it('claims what no webhook has brought, tells how many once, and looks once an interval whichever instance it is', async () => {
    lists.stripe = [
      happened('evt_young', 1),
      happened('evt_c', 30),
      happened('evt_b', 60),
      happened('evt_a', 90),
    ];
    const { headers, body } = stripeEvent('evt_b', 'invoice.paid');
    await inboxes[0]!.app.get(Inbox).receive('stripe', { headers, rawBody: body });
    const looks = await Promise.all([
      finder(0).searchQuietly('stripe', MINUTE),
      finder(1).searchQuietly('stripe', MINUTE),
    ]);
    expect(looks.filter((report) => report !== undefined)).toMatchObject([{ seen: 4, claimed: 2, known: 1 }]);
    expect(await claimed()).toEqual(['evt_a', 'evt_b', 'evt_c']);
    expect(told()).toEqual([{ kind: 'gaps-found', source: 'stripe', count: 2 }]);
    const audit = () =>
      database.query(`SELECT actor, action, target, reason, outcome FROM webhook_audit ORDER BY id`);
    const found = {
      actor: expect.stringMatching(/^instance [0-9a-f-]{36}$/),
      action: 'backfill',
      target: 'stripe',
      reason: 'look for gaps at an interval',
      outcome: expect.objectContaining({ seen: 4, claimed: 2 }),
    };
    expect(await audit()).toEqual([found]);
    const since = Number(asked[0]!.url.searchParams.get('created[gte]'));
    expect(since).toBeLessThanOrEqual(seconds(ago(179)));
    expect(asked[0]!.headers.authorization).toBe('Bearer rk_1');
    expect(asked.map(({ url }) => url.searchParams.get('starting_after'))).toEqual([null, 'evt_c']);
    const [own, other] = looks[0] === undefined ? [1, 0] : [0, 1];
    expect(await finder(other).searchQuietly('stripe', MINUTE)).toBeUndefined();
    expect(await finder(own).searchQuietly('stripe', MINUTE)).toMatchObject({ claimed: 0, known: 3 });
    // The one that looked has ended.
    await until(async () => {
      await database.query(`UPDATE webhook_lease SET until = now() WHERE name = 'gaps stripe'`);
      return (await finder(other).searchQuietly('stripe', MINUTE))?.claimed === 0;
    });
    expect(told()).toHaveLength(1);
    // A look that finds nothing is worth no row.
    expect(await audit()).toEqual([found]);
  });

  it.each(['5m', 299_999, 0])('a lookback of %s is refused at boot, with the reason', async (lookback) => {
    class Short {
      @BackfillSource('awardee', { every: '1m', lookback })
      list() {}
    }
    await expect(startInbox({ providers: [Short] })).rejects.toThrow(
      /Short\.list @BackfillSource\('awardee'\).*lookback: expected more than 5 minutes, since younger events are left out/,
    );
  });

  it('GitHub: deliveries that were answered by nobody, each once, under the id of the delivery', async () => {
    const delivery = (id: number, guid: string, status_code: number, minutes = 10) => {
      return { id, guid, status_code, event: 'push', delivered_at: ago(minutes).toISOString() };
    };
    lists.github = [
      delivery(9, 'g-redelivered', 200),
      delivery(8, 'g-lost', 502),
      delivery(7, 'g-lost', 0),
      delivery(6, 'g-fine', 200),
      delivery(5, 'g-redelivered', 500),
      delivery(4, 'g-old', 500, 600),
    ];
    const report = await inboxes[0]!.app.get(Operator).findGaps('github', { by: 'ada', reason: 'an outage' });
    expect(report).toMatchObject({ seen: 1, claimed: 1 });
    expect(await database.query(`SELECT event_id, event_type, origin, body FROM webhook_claim`)).toEqual([
      { event_id: 'g-lost', event_type: 'push', origin: 'backfill', body: Buffer.from('{"delivery":8}') },
    ]);
    expect(told()).toEqual([{ kind: 'gaps-found', source: 'github', count: 1 }]);
    expect(
      await database.query(`SELECT actor, action, target, reason, outcome FROM webhook_audit`),
    ).toMatchObject([
      { actor: 'ada', action: 'backfill', target: 'github', reason: 'an outage', outcome: { claimed: 1 } },
    ]);
    expect(asked.every(({ headers }) => headers.authorization === 'Bearer ghp_1')).toBe(true);
  });

  it('Shopify: what has changed in a shop, each change once', async () => {
    const order = (id: number, minutes: number) => {
      return {
        id,
        admin_graphql_api_id: `gid://shopify/Order/${id}`,
        updated_at: ago(minutes).toISOString(),
      };
    };
    lists.shopify = [order(1, 10), order(2, 20), order(3, 30)];
    expect(await finder().find('shopify')).toMatchObject({ seen: 3, claimed: 3 });
    expect(await finder().find('shopify')).toMatchObject({ seen: 3, claimed: 0, known: 3 });
    expect(asked[0]!.headers['x-shopify-access-token']).toBe('shpat_1');
    expect(asked[0]!.url.pathname).toMatch(/^\/admin\/api\/[\d-]+\/orders\.json$/);
  });

  it('a list that fails is told of, and looked at again; nothing is lost by it', async () => {
    lists.stripe = [happened('evt_d', 30)];
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => {
      server.close(resolve);
      server.closeAllConnections();
    });
    expect(await finder().searchQuietly('stripe', MINUTE)).toBeUndefined();
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    await until(async () => (await finder().searchQuietly('stripe', MINUTE)) !== undefined);
    expect(await claimed()).toEqual(['evt_d']);
  });

  it.each(['github', 'shopify'] as const)(
    'a next page of %s at another host gets no token',
    async (source) => {
      const at = (minutes: number) => ago(minutes).toISOString();
      lists.github = [1, 2, 3].map((id) => ({
        id,
        guid: `g-${id}`,
        delivered_at: at(10),
        status_code: 500,
        event: 'push',
      }));
      lists.shopify = [1, 2, 3].map((id) => ({ id, admin_graphql_api_id: `gid-${id}`, updated_at: at(10) }));
      nextOrigin = origin.replace('127.0.0.1', 'localhost');
      await expect(finder().find(source)).rejects.toMatchObject({
        code: 'BACKFILL_REFUSED',
        message: expect.stringContaining(`expected the next page at ${origin}, received ${nextOrigin}`),
      });
      expect(asked.filter(({ url }) => url.searchParams.has('cursor'))).toEqual([]);
    },
  );
});
