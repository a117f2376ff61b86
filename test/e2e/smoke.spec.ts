import { Injectable, type INestApplication } from '@nestjs/common';
import {
  OnEffect,
  OnWebhook,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
  hmac,
} from '../../src/index.js';
import { ADAPTERS, createApplication, listen, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { AWARDEE_SECRET, awardee, post } from '../support/signing.js';

const sent: { key: string; payload: unknown }[] = [];

@Injectable()
class Handlers {
  @OnWebhook('awardee', 'grant.*')
  async granted(event: WebhookEvent<{ amount: number }>, { manager, enqueue }: HandlerContext) {
    await manager.query(`INSERT INTO received_event (source, event_id, event_type) VALUES ($1, $2, $3)`, [
      event.source,
      event.eventId,
      event.type,
    ]);
    await enqueue('mail', { amount: event.payload.amount });
    return 'granted';
  }

  @OnEffect('mail')
  async mail(payload: unknown, { key }: EffectContext) {
    sent.push({ key, payload });
    return { sent: true };
  }
}

describe.each(ADAPTERS)('smoke on %s', (adapter) => {
  let database: TestDatabase;
  let app: INestApplication;
  let origin: string;

  beforeAll(async () => {
    database = await createDatabase();
    app = await createApplication({
      adapter,
      databaseUrl: database.url,
      webhooks: {
        sources: {
          awardee: hmac({
            secrets: [AWARDEE_SECRET],
            signatureHeader: 'X-Awardee-Signature',
            idHeader: 'X-Awardee-Delivery',
            typeHeader: 'X-Awardee-Event',
          }),
        },
      },
      providers: [Handlers],
    });
    origin = await listen(app);
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  it('goes from a signed request to a side effect', async () => {
    const request = awardee('d-1', 'grant.made', { amount: 5 });
    expect(await post(origin, '/webhooks/awardee', request)).toMatchObject({
      status: 200,
      body: { status: 'ok' },
    });
    expect(await post(origin, '/webhooks/awardee', request)).toMatchObject({
      status: 200,
      body: { status: 'duplicate' },
    });
    await until(
      async () => (await database.query(`SELECT 1 FROM webhook_outbox WHERE state = 'done'`)).length === 2,
    );
    expect(await database.query(`SELECT * FROM received_event`)).toHaveLength(1);
    expect(sent.at(-1)).toMatchObject({ payload: { amount: 5 } });
    console.log(
      await database.query('SELECT * FROM webhook_event'),
      await database.query('SELECT * FROM webhook_outbox'),
    );
  });

  it('refuses forgeries', async () => {
    const request = awardee('d-2', 'grant.made', { amount: 5 });
    expect(await post(origin, '/webhooks/awardee', { ...request, body: Buffer.from('{}') })).toMatchObject({
      status: 401,
    });
    expect(await post(origin, '/webhooks/nope', request)).toMatchObject({ status: 404 });
    expect(await post(origin, '/webhooks/awardee', request, 'PUT')).toMatchObject({ status: 405 });
  });
});
