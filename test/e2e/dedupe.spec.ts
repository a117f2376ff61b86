import { Injectable } from '@nestjs/common';
import { hmac, OnWebhook, Retention, type HandlerContext, type WebhookEvent } from '../../src/index.js';
import { ADAPTERS } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { DUPLICATE, INVALID, OK, Receiver, UNAUTHORIZED } from '../support/receiver.js';
import { record } from '../support/tables.js';
import { AWARDEE_SECRET, awardee, sesmetric, signature, stripeEvent } from '../support/signing.js';
import { awardeeSource, sesmetricSource, stripeSource } from '../support/sources.js';

@Injectable()
class Handlers {
  @OnWebhook('awardee', '*')
  async awardee(event: WebhookEvent, { manager }: HandlerContext) {
    await record(event, { manager });
  }

  @OnWebhook('other', '*')
  async other(event: WebhookEvent, { manager }: HandlerContext) {
    await record(event, { manager });
  }

  @OnWebhook('batched', '*', { retry: { base: '1h', cap: '1h' } })
  async batched(event: WebhookEvent<{ poison?: boolean }>, { manager }: HandlerContext) {
    await record(event, { manager });
    if (event.payload.poison) throw new Error('cannot be handled now');
  }
}

/** One secret for each tenant; the tenant is in the path, which the application chose, not in anything the sender controls. */
const SECRETS: Readonly<Record<string, string>> = {
  north: 'north-secret-0123456789abcdef',
  south: 'south-secret-0123456789abcdef',
};

const batch = (...ids: string[]) =>
  Buffer.from(
    JSON.stringify({ events: ids.map((id) => ({ id, type: 'e', poison: id.startsWith('poison') })) }),
  );
const signedBatch = (body: Buffer) => ({
  body,
  headers: { 'x-signature': signature(AWARDEE_SECRET, body) },
});

const batchedSource = (options = {}) =>
  hmac({
    secrets: [AWARDEE_SECRET],
    signatureHeader: 'x-signature',
    eventsPath: 'events',
    idPath: 'id',
    typePath: 'type',
    ...options,
  });

describe.each(ADAPTERS)('dedupe over HTTP on %s', (adapter) => {
  let database: TestDatabase;
  let receiver: Receiver;
  let second: Receiver;

  beforeAll(async () => {
    database = await createDatabase();
    const start = () =>
      Receiver.start({
        adapter,
        database,
        providers: [Handlers],
        webhooks: {
          sources: {
            awardee: awardeeSource(),
            other: awardeeSource(),
            sesmetric: sesmetricSource(),
            stripe: stripeSource(),
            batched: batchedSource(),
            tenants: awardeeSource({
              secrets: ({ url }) => {
                const tenant = new URLSearchParams(url.split('?')[1]).get('tenant') ?? '';
                const secret = SECRETS[tenant];
                return { tenant, secrets: secret === undefined ? [] : [secret] };
              },
            }),
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

  describe('R01 the key is the id the provider sends', () => {
    it('takes the same id for the same event, whatever the payload', async () => {
      expect(await receiver.deliver('awardee', awardee('r01', 'grant.made', { amount: 1 }))).toBe(OK);
      expect(await receiver.deliver('awardee', awardee('r01', 'grant.made', { amount: 2 }))).toBe(DUPLICATE);
      await receiver.drain();
      expect(await receiver.applied('r01')).toBe(1);
    });

    it('takes an equal payload under another id for another event', async () => {
      for (const id of ['r01-a', 'r01-b'])
        expect(await receiver.deliver('awardee', awardee(id, 'grant.made', { amount: 7 }))).toBe(OK);
      await receiver.drain();
      expect([await receiver.applied('r01-a'), await receiver.applied('r01-b')]).toEqual([1, 1]);
    });

    it('reads the type from its header', async () => {
      await receiver.deliver('awardee', awardee('r01-type', 'grant.withdrawn', '{}'));
      expect(await receiver.event('r01-type')).toMatchObject({ event_type: 'grant.withdrawn' });
    });

    it('case 7: keeps events apart that share a constant field of the body', async () => {
      for (const id of ['c7-1', 'c7-2', 'c7-3'])
        expect(await receiver.deliver('awardee', awardee(id, 'grant.made', { webhookId: 'wh_1' }))).toBe(OK);
      expect(await receiver.claims('wh_1')).toBe(0);
    });
  });

  describe('R02 a known event', () => {
    it('is answered 200 at once, and no work is owed for it', async () => {
      await receiver.deliver('awardee', awardee('r02', 'grant.made', '{}'));
      await receiver.drain();
      for (let i = 0; i < 5; i += 1)
        expect(await receiver.deliver('awardee', awardee('r02', 'grant.made', '{}'))).toBe(DUPLICATE);
      expect(await receiver.drain()).toMatchObject({ leased: 0 });
      expect(await receiver.rows('r02')).toHaveLength(1);
      expect(await receiver.applied('r02')).toBe(1);
    });
  });

  describe('R17 and R34 the unique constraint decides who was first', () => {
    it('case 3: lets one of 50 equal deliveries at once win, over two instances', async () => {
      const request = awardee('r17', 'grant.made', '{}');
      const replies = await Promise.all(
        Array.from({ length: 50 }, (_, i) => (i % 2 ? receiver : second).deliver('awardee', request)),
      );
      expect(replies.filter((reply) => reply === OK)).toHaveLength(1);
      expect(replies.filter((reply) => reply === DUPLICATE)).toHaveLength(49);
      await Promise.all([receiver.drain(), second.drain()]);
      expect(await receiver.rows('r17')).toEqual([expect.objectContaining({ state: 'done', attempt: 1 })]);
      expect(await receiver.applied('r17')).toBe(1);
    });

    it('claims crowds of different events, each delivered to both, exactly once', async () => {
      const ids = Array.from({ length: 30 }, (_, i) => `crowd-${i}`);
      const replies = await Promise.all(
        ids.flatMap((id) =>
          [receiver, second].map((one) => one.deliver('awardee', awardee(id, 'grant.made', '{}'))),
        ),
      );
      expect(replies.filter((reply) => reply !== OK && reply !== DUPLICATE)).toEqual([]);
      expect(replies.filter((reply) => reply === OK)).toHaveLength(30);
      expect(replies.filter((reply) => reply === DUPLICATE)).toHaveLength(30);
    });
  });

  describe('R26 the key is (source, tenant, id)', () => {
    it('keeps two sources apart that use one id', async () => {
      expect(await receiver.deliver('awardee', awardee('r26', 'grant.made', '{}'))).toBe(OK);
      expect(await receiver.deliver('other', awardee('r26', 'grant.made', '{}'))).toBe(OK);
      await receiver.drain();
      expect(
        await receiver.query(`SELECT source FROM received_event WHERE event_id = 'r26' ORDER BY 1`),
      ).toEqual([{ source: 'awardee' }, { source: 'other' }]);
    });

    it('keeps two tenants apart that use one id, and believes neither with the other’s secret', async () => {
      const from = (tenant: string, secret: string) => {
        const request = awardee('r26-tenants', 'grant.made', '{}');
        const headers = { ...request.headers, 'X-Awardee-Signature': signature(secret, request.body) };
        return receiver.deliverTo(`/webhooks/tenants?tenant=${tenant}`, { ...request, headers });
      };
      expect(await from('north', SECRETS['north']!)).toBe(OK);
      expect(await from('south', SECRETS['south']!)).toBe(OK);
      expect(await from('south', SECRETS['south']!)).toBe(DUPLICATE);
      expect(await from('south', SECRETS['north']!)).toBe(UNAUTHORIZED);
      expect(await from('west', SECRETS['north']!)).toBe(UNAUTHORIZED);
      expect(
        await receiver.query(`SELECT tenant FROM webhook_claim WHERE event_id = 'r26-tenants' ORDER BY 1`),
      ).toEqual([{ tenant: 'north' }, { tenant: 'south' }]);
    });
  });

  describe('the id as a key', () => {
    it('case 36: keeps the digits of numbers that JavaScript rounds', async () => {
      for (const id of ['9007199254740992', '9007199254740993', '123456789012345678901234567890'])
        expect(await receiver.deliver('sesmetric', sesmetric(`{"id":${id},"type":"t"}`))).toBe(OK);
      expect(await receiver.claims('9007199254740992')).toBe(1);
      expect(await receiver.claims('9007199254740993')).toBe(1);
      expect(await receiver.claims('123456789012345678901234567890')).toBe(1);
    });

    it('keeps ids apart that differ in case, in a blank or in an accent', async () => {
      for (const id of ['evt', 'EVT', 'evt ', 'évt', 'e\u0301vt'])
        expect(await receiver.deliver('sesmetric', sesmetric({ id, type: 't' }))).toBe(OK);
    });

    it('stores ids longer than 255 bytes as their hash, and still tells them apart', async () => {
      const long = (end: string) => sesmetric({ id: `${'x'.repeat(300)}${end}`, type: 't' });
      expect(await receiver.deliver('sesmetric', long('1'))).toBe(OK);
      expect(await receiver.deliver('sesmetric', long('2'))).toBe(OK);
      expect(await receiver.deliver('sesmetric', long('1'))).toBe(DUPLICATE);
    });

    it('refuses ids that PostgreSQL would refuse, or store as one', async () => {
      for (const id of ['"a\\u0000"', '"\\ud83d"', '"\\ud83e"', '"a\\nb"', '"\\u202eabc"'])
        expect(await receiver.deliver('sesmetric', sesmetric(`{"id":${id},"type":"t"}`))).toBe(INVALID);
    });
  });

  describe('case 35: one body with several events', () => {
    it('claims each; one that fails holds up none of the others, nor does a redelivery run them again', async () => {
      const request = signedBatch(batch('b-1', 'poison-1', 'b-2', 'b-1'));
      expect(await receiver.deliver('batched', request)).toBe(OK);
      expect(await receiver.drain()).toMatchObject({ done: 2, retried: 1 });
      const states = async () =>
        (await Promise.all(['b-1', 'poison-1', 'b-2'].map((id) => receiver.event(id)))).map((e) => e?.state);
      expect(await states()).toEqual(['processed', 'pending', 'processed']);
      expect(await receiver.deliver('batched', request)).toBe(DUPLICATE);
      expect(await receiver.drain()).toMatchObject({ leased: 0 });
      expect(await receiver.applied('b-1')).toBe(1);
    });

    it('answers ok as soon as one of them is new, and keeps each event’s own bytes', async () => {
      const body = Buffer.from('{"events":[ {"id":"b-1","type":"e"}, {"id" : "b-3", "type":"e", "n":1.0} ]}');
      expect(await receiver.deliver('batched', signedBatch(body))).toBe(OK);
      const [claim] = await receiver.query<{ body: Buffer }>(
        `SELECT body FROM webhook_claim WHERE event_id = 'b-3'`,
      );
      expect(claim!.body.toString()).toBe('{"id" : "b-3", "type":"e", "n":1.0}');
    });

    it('claims the others when one of its events has no id', async () => {
      const body = Buffer.from('{"events":[{"id":"b-4","type":"e"},{"type":"e"}]}');
      expect(await receiver.deliver('batched', signedBatch(body))).toBe(OK);
      expect(await receiver.claims('b-4')).toBe(1);
    });

    it('answers ok to a body without events', async () => {
      expect(await receiver.deliver('batched', signedBatch(batch()))).toBe(OK);
    });
  });

  describe('R10 what is kept of an event', () => {
    it('keeps source, id, type, times and the exact payload, and only the headers that are asked for', async () => {
      const request = stripeEvent('evt_r10', 'invoice.paid', { id: 'in_1' });
      const headers = {
        ...request.headers,
        authorization: 'Bearer x',
        cookie: 'a=b',
        'user-agent': 'Stripe/1.0',
      };
      expect(await receiver.deliver('stripe', { ...request, headers })).toBe(OK);
      const [claim] = await receiver.query(`SELECT * FROM webhook_claim WHERE event_id = 'evt_r10'`);
      expect(claim).toMatchObject({
        source: 'stripe',
        tenant: '',
        event_type: 'invoice.paid',
        origin: 'delivery',
        headers: { 'content-type': 'application/json', 'user-agent': 'Stripe/1.0' },
        body: request.body,
      });
      expect(Object.keys(claim!['headers'] as object)).toHaveLength(2);
      expect(Math.abs((claim!['received_at'] as Date).getTime() - Date.now())).toBeLessThan(60_000);
    });

    it('adds the time at which the last handler was done', async () => {
      await receiver.deliver('awardee', awardee('r10', 'grant.made', '{}'));
      expect(await receiver.event('r10')).toMatchObject({ state: 'pending', processed_at: null });
      await receiver.drain();
      expect(await receiver.event('r10')).toMatchObject({
        state: 'processed',
        processed_at: expect.any(Date),
      });
    });
  });

  describe('R15 an event whose claim was pruned', () => {
    it('counts as new', async () => {
      const request = awardee('r15', 'grant.made', '{}');
      await receiver.deliver('awardee', request);
      await receiver.drain();
      await receiver.query(
        `UPDATE webhook_claim SET received_at = now() - interval '31 days' WHERE event_id = 'r15'`,
      );
      await receiver.app.get(Retention).prune();
      expect(await receiver.claims('r15')).toBe(0);
      expect(await receiver.deliver('awardee', request)).toBe(OK);
      await receiver.drain();
      expect(await receiver.applied('r15')).toBe(2);
    });
  });
});
