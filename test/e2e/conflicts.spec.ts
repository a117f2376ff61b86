import { Injectable } from '@nestjs/common';
import { Tally } from '../../src/core/telemetry/tally.js';
import { DataSource } from 'typeorm';
import { Erasure, Inspector, OnWebhook, Replays, type Alert } from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { ADAPTERS } from '../support/application.js';
import { DUPLICATE, OK, Receiver } from '../support/receiver.js';
import { githubEvent, sesmetric, signature, STRIPE_SECRET } from '../support/signing.js';
import { githubSource, sesmetricSource, stripeSource } from '../support/sources.js';

@Injectable()
class Handlers {
  @OnWebhook('batch', 'made', { name: 'batch' })
  batch(): string {
    return 'made';
  }

  @OnWebhook('waiting', 'made', { name: 'waiting' })
  waiting(): string {
    return 'made';
  }
}

function stripeSigned(event: object) {
  const body = Buffer.from(JSON.stringify(event));
  const at = Math.floor(Date.now() / 1000);
  const v1 = signature(STRIPE_SECRET, Buffer.concat([Buffer.from(`${at}.`), body]));
  return { body, headers: { 'content-type': 'application/json', 'Stripe-Signature': `t=${at},v1=${v1}` } };
}

describe.each(ADAPTERS)('deliveries that contradict what is known, over HTTP on %s', (adapter) => {
  let receiver: Receiver;
  const alerts: Alert[] = [];

  beforeAll(async () => {
    receiver = await Receiver.start({
      adapter,
      webhooks: {
        onAlert: (alert) => void alerts.push(alert),
        sources: {
          github: githubSource(),
          strict: githubSource({ suspectedReplays: 'refuse' }),
          stripe: stripeSource(),
          'own-key': stripeSource({ dedupe: { path: 'data.object.id' } }),
          sesmetric: sesmetricSource(),
          batch: sesmetricSource({ eventsPath: 'items' }),
          waiting: sesmetricSource({ eventsPath: 'items', retries: 'provider' }),
        },
      },
      providers: [Handlers],
      // Its rounds take the counts, and tell of bursts of conflicts: on a slow machine in the middle of a test.
      configure: (app) => void (app.get(DeskKeeper).onApplicationBootstrap = () => undefined),
    });
  });
  afterAll(() => receiver?.stop());
  beforeEach(() => {
    alerts.length = 0;
  });

  const conflicts = (eventId: string) =>
    receiver.query(`SELECT kind, deliveries FROM webhook_conflict WHERE event_id = $1 ORDER BY first_at`, [
      eventId,
    ]);
  const ourId = async (eventId: string) => {
    const [claim] = await receiver.query<{ id: string }>(`SELECT id FROM webhook_claim WHERE event_id = $1`, [
      eventId,
    ]);
    return claim!.id;
  };
  const counted = async (source: string, metric: string) => {
    const counts = receiver.app.get(Tally).drain().metrics;
    return counts.find((count) => count.source === source && count.metric === metric)?.value;
  };
  const storedBody = async (eventId: string) => {
    const [claim] = await receiver.query<{ body: Buffer }>(
      `SELECT body FROM webhook_claim WHERE event_id = $1`,
      [eventId],
    );
    return claim!.body.toString();
  };

  describe('the same id with other bytes', () => {
    it('is recorded where the provider’s retries repeat the bytes: the first stay, the answer is duplicate', async () => {
      expect(await receiver.deliver('github', githubEvent('guid-1', 'push', { n: 1 }))).toBe(OK);
      expect(await receiver.deliver('github', githubEvent('guid-1', 'push', { n: 2 }))).toBe(DUPLICATE);
      expect(await receiver.deliver('github', githubEvent('guid-1', 'push', { n: 2 }))).toBe(DUPLICATE);
      expect(await conflicts('guid-1')).toEqual([{ kind: 'other-bytes', deliveries: 2 }]);
      expect(await storedBody('guid-1')).toBe('{"n":1}');
      expect(alerts[0]).toEqual({
        kind: 'conflict',
        conflict: 'other-bytes',
        event: { source: 'github', tenant: '', eventId: 'guid-1' },
      });
    });

    describe('keeps what came, to be compared', () => {
      const kept = (eventId: string) =>
        receiver.query<{ body: string | null; headers: Record<string, string> | null }>(
          `SELECT convert_from(body, 'UTF8') AS body, headers FROM webhook_conflict
            WHERE event_id = $1 AND kind = 'other-bytes' ORDER BY first_at, deliveries`,
          [eventId],
        );
      const comes = async (eventId: string, ...contents: readonly object[]) => {
        for (const content of contents)
          await receiver.deliver('github', githubEvent(eventId, 'push', { eventId, ...content }));
      };

      it('the bytes and headers of the first delivery that brought them, and where they can be looked up', async () => {
        await comes('kept-1', { n: 1 }, { n: 2 }, { n: 2 });
        expect(await kept('kept-1')).toEqual([
          {
            body: '{"eventId":"kept-1","n":2}',
            headers: expect.objectContaining({ 'x-github-delivery': 'kept-1' }),
          },
        ]);
        const inspector = receiver.app.get(Inspector);
        const id = await ourId('kept-1');
        const [conflict] = (await inspector.event(id))!.conflicts;
        expect(conflict).toMatchObject({ kind: 'other-bytes', kept: true, deliveries: 2, otherId: null });
        expect((await inspector.conflictBody(id, conflict!.sha256))!.toString()).toContain('"n":2');
        expect(await inspector.conflictBody(id, '0'.repeat(64))).toBeUndefined();
      });

      it('of long bodies the first 256 kB, and of an event five bodies', async () => {
        await comes('kept-2', { n: 0 }, { long: 'x'.repeat(300_000) });
        expect((await kept('kept-2')).map(({ body }) => body?.length)).toEqual([256 * 1024]);
        await comes('kept-3', ...Array.from({ length: 8 }, (_, n) => ({ n })));
        const bodies = await kept('kept-3');
        expect(bodies.map(({ body }) => body !== null)).toEqual([true, true, true, true, true, false, false]);
      });

      it('nothing of an event whose own body is gone, or is about to go', async () => {
        await comes('kept-4', { n: 1 });
        const erasing = receiver.app.get(DataSource).createQueryRunner();
        try {
          await erasing.startTransaction();
          await erasing.query(`SELECT FROM webhook_claim WHERE event_id = 'kept-4' FOR UPDATE`);
          await comes('kept-4', { n: 2 });
          expect(await kept('kept-4')).toEqual([{ body: null, headers: null }]);
        } finally {
          await erasing.rollbackTransaction();
          await erasing.release();
        }
        await comes('kept-4', { n: 3 });
        const event = { source: 'github', tenant: '', eventId: 'kept-4' };
        await receiver.app.get(Erasure).erase(event, { by: 'a test', reason: 'to see' });
        await comes('kept-4', { n: 4 });
        expect((await kept('kept-4')).map(({ body }) => body)).toEqual([null, null]);
      });
    });

    it('is nothing to speak of when the bytes are the same', async () => {
      for (const reply of [OK, DUPLICATE])
        expect(await receiver.deliver('github', githubEvent('guid-2', 'push', { n: 3 }))).toBe(reply);
      expect(await conflicts('guid-2')).toEqual([]);
      expect(alerts).toEqual([]);
    });

    it('is counted alone where it differs by what the provider’s retries change', async () => {
      const event = (pending_webhooks: number) =>
        stripeSigned({ id: 'evt_1', type: 'invoice.paid', pending_webhooks, data: { object: {} } });
      expect(await receiver.deliver('stripe', event(2))).toBe(OK);
      expect(await receiver.deliver('stripe', event(1))).toBe(DUPLICATE);
      expect(await conflicts('evt_1')).toEqual([]);
      expect(alerts).toEqual([]);
      expect(await counted('stripe', 'other-bytes')).toBe(1);
    });

    it('is recorded where it differs by more than that, and a person is told', async () => {
      const event = (amount: number) =>
        stripeSigned({ id: 'evt_2', type: 'invoice.paid', data: { object: { amount } } });
      expect(await receiver.deliver('stripe', event(100))).toBe(OK);
      expect(await receiver.deliver('stripe', event(200))).toBe(DUPLICATE);
      expect(await receiver.deliver('stripe', event(200))).toBe(DUPLICATE);
      expect(await conflicts('evt_2')).toEqual([{ kind: 'other-bytes', deliveries: 2 }]);
      expect(alerts).toEqual([
        {
          kind: 'conflict',
          conflict: 'other-bytes',
          event: { source: 'stripe', tenant: '', eventId: 'evt_2' },
        },
      ]);
    });

    it('is counted alone under a dedupe key of the user’s choice, which makes different events one', async () => {
      const event = (n: number) =>
        stripeSigned({ id: `evt_own_${n}`, type: 't', data: { object: { id: 'own' } } });
      expect(await receiver.deliver('own-key', event(1))).toBe(OK);
      expect(await receiver.deliver('own-key', event(2))).toBe(DUPLICATE);
      expect(await conflicts('own')).toEqual([]);
      expect(await counted('own-key', 'other-bytes')).toBe(1);
    });
  });

  it('a conflict that cannot be recorded changes no answer: the claim is committed by then', async () => {
    const twice = sesmetric({ items: [1, 2].map((n) => ({ id: 'refused', type: 'made', n })) });
    await receiver.query(`CREATE FUNCTION refuse_conflicts() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE EXCEPTION 'no conflicts today'; END $$`);
    await receiver.query(
      `CREATE TRIGGER refuse_conflicts BEFORE INSERT ON webhook_conflict FOR EACH ROW EXECUTE FUNCTION refuse_conflicts()`,
    );
    try {
      expect(await receiver.deliver('batch', twice)).toBe(OK);
    } finally {
      await receiver.query(`DROP FUNCTION refuse_conflicts CASCADE`);
    }
    expect(await receiver.deliver('batch', twice)).toBe(DUPLICATE);
    expect(await conflicts('refused')).toEqual([{ kind: 'other-bytes', deliveries: 1 }]);
  });

  describe.each(['batch', 'waiting'])('a batch of source %s', (source) => {
    const batch = (items: readonly unknown[]) => sesmetric({ items });
    const item = (id: string | null, n = 1) => ({
      id: id === null ? null : `${source}-${id}`,
      type: 'made',
      source,
      n,
    });

    it('tells of a second item with the same id and other content as a conflict; the first stays', async () => {
      expect(await receiver.deliver(source, batch([item('a', 1), item('a', 2), item('b')]))).toBe(OK);
      expect(await storedBody(`${source}-a`)).toBe(JSON.stringify(item('a', 1)));
      expect(await conflicts(`${source}-a`)).toEqual([{ kind: 'other-bytes', deliveries: 1 }]);
      expect(await conflicts(`${source}-b`)).toEqual([]);
      expect(alerts).toMatchObject([{ kind: 'conflict', event: { eventId: `${source}-a` } }]);
      expect(await receiver.deliver(source, batch([item('a', 1), item('a', 2)]))).toBe(DUPLICATE);
      expect(await conflicts(`${source}-a`)).toEqual([{ kind: 'other-bytes', deliveries: 2 }]);
    });

    it('is nothing to speak of where the same item is there twice', async () => {
      expect(await receiver.deliver(source, batch([item('c'), item('c')]))).toBe(OK);
      expect(await conflicts(`${source}-c`)).toEqual([]);
      expect(alerts).toEqual([]);
    });

    it('claims the others where an item has no usable id, which is dead, and is run when it is replayed', async () => {
      expect(await receiver.deliver(source, batch([item('d'), item(null, 7), item('e')]))).toBe(OK);
      await receiver.drain();
      const [{ event_id: id } = { event_id: '' }] = await receiver.query<{ event_id: string }>(
        `SELECT event_id FROM webhook_claim WHERE source = $1 AND event_id LIKE 'content:%'`,
        [source],
      );
      expect(await storedBody(id)).toBe(JSON.stringify(item(null, 7)));
      expect(await receiver.event(`${source}-d`)).toMatchObject({ state: 'processed' });
      expect(await receiver.event(`${source}-e`)).toMatchObject({ state: 'processed' });
      const dead = { state: 'dead', reason: 'unusable-id', attempt: 0, leased_by: null };
      expect(await receiver.rows(id)).toMatchObject([{ ...dead, error: expect.stringContaining('body.id') }]);
      expect(await receiver.event(id)).toMatchObject({ state: 'dead' });
      expect(alerts).toMatchObject([{ kind: 'dead-letter', reason: 'unusable-id', event: { eventId: id } }]);
      expect(await receiver.deliver(source, batch([item(null, 7)]))).toBe(DUPLICATE);
      await receiver.drain();
      expect(await receiver.rows(id)).toMatchObject([dead]);
      const asked = { by: 'ops', reason: 'it is wanted all the same' };
      const report = await receiver.app.get(Replays).run({ events: [{ source, eventId: id }] }, asked);
      expect(report).toMatchObject({ replayed: 1, refused: [] });
      await receiver.drain();
      expect(await receiver.event(id)).toMatchObject({ state: 'processed' });
    });

    it('is answered 200 where no item has a usable id', async () => {
      expect(await receiver.deliver(source, batch([{ type: 'made' }, null, 7]))).toBe(OK);
    });
  });

  describe('known bytes under a new id that no signature covers', () => {
    it('are a suspected replay: taken in, recorded, and a person is told', async () => {
      expect(await receiver.deliver('github', githubEvent('guid-3', 'push', { n: 4 }))).toBe(OK);
      expect(await receiver.deliver('github', githubEvent('guid-4', 'push', { n: 4 }))).toBe(OK);
      expect(await receiver.claims('guid-4')).toBe(1);
      expect(await conflicts('guid-4')).toEqual([{ kind: 'suspected-replay', deliveries: 1 }]);
      const seen = await receiver.app.get(Inspector).event(await ourId('guid-4'));
      expect(seen!.conflicts).toMatchObject([{ kept: false, otherId: await ourId('guid-3') }]);
      expect(alerts).toEqual([
        {
          kind: 'conflict',
          conflict: 'suspected-replay',
          event: { source: 'github', tenant: '', eventId: 'guid-4' },
        },
      ]);
    });

    it('are dropped as a duplicate by a source that refuses them, however many ids are minted', async () => {
      expect(await receiver.deliver('strict', githubEvent('guid-5', 'push', { n: 5 }))).toBe(OK);
      for (const id of ['minted-1', 'minted-2', 'minted-1']) {
        expect(await receiver.deliver('strict', githubEvent(id, 'push', { n: 5 }))).toBe(DUPLICATE);
        expect(await receiver.claims(id)).toBe(0);
      }
      expect(await conflicts('minted-1')).toEqual([{ kind: 'suspected-replay', deliveries: 2 }]);
      expect(await receiver.deliver('strict', githubEvent('guid-6', 'push', { n: 6 }))).toBe(OK);
      expect(await receiver.deliver('strict', githubEvent('guid-5', 'push', { n: 5 }))).toBe(DUPLICATE);
    });

    it('R01 are another event where the id is signed', async () => {
      const body = (id: string) => sesmetric({ id, type: 't', n: 7 });
      expect(await receiver.deliver('sesmetric', body('signed-1'))).toBe(OK);
      expect(await receiver.deliver('sesmetric', body('signed-2'))).toBe(OK);
      expect(alerts).toEqual([]);
    });

    it('are another source’s business: the same bytes there are no replay', async () => {
      expect(await receiver.deliver('strict', githubEvent('guid-7', 'push', { n: 8 }))).toBe(OK);
      expect(await receiver.deliver('github', githubEvent('guid-8', 'push', { n: 8 }))).toBe(OK);
      expect(await conflicts('guid-8')).toEqual([]);
    });
  });
});
