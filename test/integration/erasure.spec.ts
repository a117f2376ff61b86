import { Injectable, type INestApplication } from '@nestjs/common';
import {
  Erasure,
  Inbox,
  OnEffect,
  OnWebhook,
  OutboxRelay,
  StartupReconciler,
  hmac,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { LeasedWork } from '../../src/outbox/relay/leased-work.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { AWARDEE_SECRET, awardee } from '../support/signing.js';

/** Stands in every byte that must go. */
const CANARY = 'ada.lovelace@example.org';
const why = { by: 'dpo', reason: 'request 17' };

/** What the handler and the effect do, as each test wants it. */
const script: {
  handle: (context: HandlerContext, event: WebhookEvent) => Promise<unknown>;
  send: (context: EffectContext) => Promise<unknown>;
} = { handle: async () => undefined, send: async () => undefined };

@Injectable()
class Handlers {
  @OnWebhook<{ email: string }>('awardee', '*', {
    retry: { maxAttempts: 1 },
    skipStale: {
      key: ({ payload, eventId }) => `${payload.email} ${eventId}`,
      at: (event) => event.receivedAt,
    },
  })
  handle(event: WebhookEvent, context: HandlerContext) {
    return script.handle(context, event);
  }

  @OnEffect('mail', { retry: { base: '1h' } })
  mail(_payload: unknown, context: EffectContext) {
    return script.send(context);
  }
}

function gate() {
  let open = () => undefined as void;
  const opened = new Promise<void>((resolve) => (open = resolve));
  return { open, opened };
}

describe('erasure of an event', () => {
  let database: TestDatabase;
  let app: INestApplication;

  beforeEach(async () => {
    database = await createDatabase();
    script.handle = async ({ enqueue }) => {
      await enqueue('mail', { to: CANARY }, { key: CANARY });
      return `mail to ${CANARY}`;
    };
    script.send = async () => ({ sentTo: CANARY });
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: {
        sources: {
          awardee: hmac({
            secrets: [AWARDEE_SECRET],
            signatureHeader: 'X-Awardee-Signature',
            idHeader: 'X-Awardee-Delivery',
            typeHeader: 'X-Awardee-Event',
            keepHeaders: ['x-user'],
          }),
        },
        relay: { pollInterval: '100ms' },
      },
      providers: [Handlers],
    });
  });
  afterEach(async () => {
    await app.close();
    await database.drop();
  });

  const key = { source: 'awardee', tenant: '', eventId: 'evt' };
  const receive = (more: object = {}) => {
    const { headers, body } = awardee('evt', 'grant.made', { email: CANARY, ...more });
    return app.get(Inbox).receive('awardee', { headers: { ...headers, 'x-user': CANARY }, rawBody: body });
  };
  const erase = () => app.get(Erasure).erase(key, why);
  const rows = () =>
    database.query<{ kind: string; state: string; leased: boolean }>(
      `SELECT kind, state, leased_by IS NOT NULL AS leased FROM webhook_outbox ORDER BY kind DESC, created_at, id`,
    );
  const states = async () => (await rows()).map(({ kind, state }) => `${kind} ${state}`);
  const reach = (...wanted: string[]) => until(async () => String(await states()) === String(wanted));
  /** Tables that hold the canary anywhere, bytes included. */
  const traces = async () => {
    const found: string[] = [];
    for (const table of [
      'webhook_claim',
      'webhook_outbox',
      'webhook_outbox_data',
      'webhook_conflict',
      'webhook_event',
      'webhook_watermark',
    ]) {
      const hits = await database.query(
        `SELECT 1 FROM ${table} t WHERE to_jsonb(t)::text LIKE '%${CANARY}%' OR to_jsonb(t)::text LIKE '%${Buffer.from(CANARY).toString('hex')}%'`,
      );
      if (hits.length > 0) found.push(table);
    }
    return found;
  };
  const event = async () => (await database.query(`SELECT state, outcome FROM webhook_event`))[0];

  it('removes body, headers, keys, payloads, results and texts; a redelivery is a duplicate and brings nothing back', async () => {
    await receive();
    await reach('handler done', 'effect done');
    expect(await traces()).toEqual([
      'webhook_claim',
      'webhook_outbox',
      'webhook_outbox_data',
      'webhook_event',
    ]);
    // The mark of skipStale is there, and has no name.
    expect(await database.query('SELECT FROM webhook_watermark')).toHaveLength(1);
    const report = await erase();
    expect(report).toMatchObject({
      outcome: 'erased',
      cancelled: [],
      possiblySent: [],
      sent: [{ name: 'mail' }],
    });
    expect(await traces()).toEqual([]);
    expect(await event()).toEqual({ state: 'erased', outcome: 'erased by dpo: request 17' });
    for (const more of [{}, { other: 'bytes' }])
      expect(await receive(more)).toMatchObject({ status: 200, body: { status: 'duplicate' } });
    expect(await traces()).toEqual([]);
    expect(await states()).toEqual(['handler done', 'effect done']);
    expect(await erase()).toEqual({ outcome: 'already', cancelled: [], possiblySent: [], sent: [] });
  });

  it('cancels dead work, whose body and error text go too, and a redelivery does not revive it', async () => {
    script.handle = async () => {
      throw new Error(`no such user ${CANARY}`);
    };
    await receive();
    await reach('handler dead');
    expect(await traces()).toContain('webhook_outbox');
    expect(await erase()).toMatchObject({
      outcome: 'erased',
      cancelled: [{ name: 'awardee/Handlers.handle' }],
    });
    expect(await traces()).toEqual([]);
    await receive();
    await app.get(StartupReconciler).reconcile();
    await app.get(OutboxRelay).tick();
    expect(await states()).toEqual(['handler erased']);
  });

  it('an effect that failed and waits is cancelled and reported as possibly sent', async () => {
    script.send = async () => {
      throw new Error(`mailbox of ${CANARY} is full`);
    };
    await receive();
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE error IS NOT NULL`)).length === 1,
    );
    expect(await erase()).toMatchObject({ possiblySent: [{ name: 'mail' }], sent: [] });
    expect(await traces()).toEqual([]);
    expect(await states()).toEqual(['handler done', 'effect erased']);
  });

  it('an effect that an engine has is erased and reported as possibly sent', async () => {
    script.send = async () => {
      throw new Error('down');
    };
    await receive();
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE error IS NOT NULL`)).length === 1,
    );
    await database.query(
      `UPDATE webhook_outbox SET state = 'handed', leased_by = NULL, due_at = now() + interval '1 hour' WHERE kind = 'effect'`,
    );
    expect(await erase()).toMatchObject({
      cancelled: [{ name: 'mail' }],
      possiblySent: [{ name: 'mail' }],
      sent: [],
    });
    expect(await traces()).toEqual([]);
    expect(await states()).toEqual(['handler done', 'effect erased']);
  });

  it.each(['with', 'without'])(
    'an effect in flight %s completion: reported, and its late result is dropped',
    async (how) => {
      const [begun, end] = [gate(), gate()];
      let completed = 0;
      script.send = async (context) => {
        if (how === 'with') await context.complete(() => (completed += 1));
        begun.open();
        await end.opened;
        return { sentTo: CANARY };
      };
      await receive();
      await begun.opened;
      expect(await erase()).toMatchObject({
        cancelled: [{ name: 'mail' }],
        possiblySent: [{ name: 'mail' }],
        sent: [],
      });
      end.open();
      await until(() => app.get(LeasedWork).running === 0);
      await new Promise((resolve) => setTimeout(resolve, 300));
      expect(await traces()).toEqual([]);
      expect(await rows()).toEqual([
        { kind: 'handler', state: 'done', leased: false },
        { kind: 'effect', state: 'erased', leased: false },
      ]);
      expect(await database.query(`SELECT 1 FROM webhook_outbox_data WHERE result IS NOT NULL`)).toEqual([]);
    },
  );

  it('a handler in flight is rolled back, with what it enqueued', async () => {
    const [begun, end] = [gate(), gate()];
    script.handle = async ({ manager, enqueue }) => {
      await manager.query(
        `INSERT INTO received_event (source, event_id, event_type) VALUES ('awardee', 'evt', 'x')`,
      );
      await enqueue('mail', { to: CANARY });
      begun.open();
      await end.opened;
    };
    await receive();
    await begun.opened;
    expect(await erase()).toMatchObject({
      cancelled: [{ name: 'awardee/Handlers.handle' }],
      possiblySent: [],
    });
    end.open();
    await until(() => app.get(LeasedWork).running === 0);
    expect(await states()).toEqual(['handler erased']);
    expect(await database.query(`SELECT 1 FROM received_event`)).toEqual([]);
    expect(await traces()).toEqual([]);
  });

  it('against handlers, effects and redeliveries of the same events at once, leaves nothing behind', async () => {
    script.handle = async ({ enqueue }) => {
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 15));
      await enqueue('mail', { to: CANARY });
      return CANARY;
    };
    script.send = async (context) => {
      await context.complete(() => new Promise((resolve) => setTimeout(resolve, Math.random() * 5)));
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 15));
      return { sentTo: CANARY };
    };
    const outcomes = new Set<string>();
    await Promise.all(
      Array.from({ length: 150 }, async (_, i) => {
        const { headers, body } = awardee(`evt_${i}`, 'grant.made', { email: CANARY });
        const deliver = () => app.get(Inbox).receive('awardee', { headers, rawBody: body });
        await deliver();
        const again = (async () => {
          for (let n = 0; n < 3; n += 1) await deliver();
        })();
        await new Promise((resolve) => setTimeout(resolve, Math.random() * 200));
        outcomes.add((await app.get(Erasure).erase({ ...key, eventId: `evt_${i}` }, why)).outcome);
        await again;
      }),
    );
    await until(() => app.get(LeasedWork).running === 0);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect([...outcomes]).toEqual(['erased']);
    expect(await traces()).toEqual([]);
    expect(
      await database.query(`SELECT 1 FROM webhook_outbox WHERE state NOT IN ('done', 'erased')`),
    ).toEqual([]);
    expect(await database.query(`SELECT 1 FROM webhook_claim WHERE erased_at IS NULL`)).toEqual([]);
  });

  it('says so when it knows no such event, and asks who and why', async () => {
    expect(await erase()).toMatchObject({ outcome: 'unknown' });
    for (const blank of [
      { by: ' ', reason: 'x' },
      { by: 'x', reason: '' },
    ]) {
      await expect(app.get(Erasure).erase(key, blank)).rejects.toMatchObject({ code: 'INPUT_REFUSED' });
    }
  });
});
