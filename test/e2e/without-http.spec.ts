import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import {
  Inbox,
  OnWebhook,
  OutboxRelay,
  Rejections,
  WebhooksModule,
  type Answer,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { ADAPTERS } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { hostModule, startHost } from '../support/host.js';
import { send } from '../support/http.js';
import {
  answered,
  DUPLICATE,
  INVALID,
  OK,
  Receiver,
  UNAUTHORIZED,
  WRONG_METHOD,
} from '../support/receiver.js';
import { awardee, sesmetric, SESMETRIC_SECRET, type SignedRequest } from '../support/signing.js';
import { awardeeSource, sesmetricSource } from '../support/sources.js';
import { record } from '../support/tables.js';

@Injectable()
class Handlers {
  @OnWebhook('sesmetric', '*')
  async handle(event: WebhookEvent, { manager }: HandlerContext) {
    await record(event, { manager });
  }
}

describe('deliveries that do not come over HTTP', () => {
  let database: TestDatabase;
  let context: Awaited<ReturnType<typeof NestFactory.createApplicationContext>>;
  let receiver: Receiver;

  beforeAll(async () => {
    database = await createDatabase();
    const sources = {
      sesmetric: sesmetricSource(),
      awardee: awardeeSource(),
      'secrets-away': awardeeSource({ secrets: () => Promise.reject(new Error('vault is sealed')) }),
    };
    const webhooks = WebhooksModule.forRoot({ sources });
    context = await NestFactory.createApplicationContext(
      hostModule({ databaseUrl: database.url, webhooks, providers: [Handlers] }),
      { logger: false, abortOnError: false },
    );
    receiver = await Receiver.start({ database, webhooks: { sources }, providers: [Handlers] });
  });
  afterAll(async () => {
    await context?.close();
    await receiver?.stop();
    await database?.drop();
  });

  const receive = async (source: string, { headers, body }: SignedRequest, method?: string) =>
    shown(await context.get(Inbox).receive(source, { method, headers, rawBody: body }));

  it('are claimed and handled as those over HTTP are, and know each other’s events', async () => {
    expect(await receive('sesmetric', sesmetric({ id: 'queue', type: 't' }))).toBe(OK);
    expect(await receive('sesmetric', sesmetric({ id: 'queue', type: 't' }))).toBe(DUPLICATE);
    expect(await receiver.deliver('sesmetric', sesmetric({ id: 'queue', type: 't' }))).toBe(DUPLICATE);
    await context.get(OutboxRelay).drain({ maxMs: 10_000 });
    expect(await receiver.event('queue')).toMatchObject({ state: 'processed' });
    expect(await receiver.applied('queue')).toBe(1);
  });

  const genuine = sesmetric({ id: 'same', type: 't' });
  it.each<[string, string, SignedRequest, string?]>([
    ['a forgery', 'sesmetric', { ...genuine, body: Buffer.from('{}') }],
    ['an old timestamp', 'sesmetric', sesmetric({ id: 'same', type: 't' }, 1)],
    ['no id', 'sesmetric', sesmetric({ type: 't' })],
    ['another method', 'sesmetric', genuine, 'PUT'],
    ['a large body', 'sesmetric', sesmetric({ id: 'large', type: 't', text: 'x'.repeat(1024 * 1024) })],
    ['a secrets function that fails', 'secrets-away', awardee('same', 't', '{}')],
    ['a body that is no JSON', 'awardee', awardee('junk', 't', '{junk')],
  ])('get the answer that HTTP gives: %s', async (_, source, request, method = 'POST') => {
    const overHttp = await receiver.send({ path: `/webhooks/${source}`, method, ...request });
    const direct = await context
      .get(Inbox)
      .receive(source, { method, headers: request.headers, rawBody: request.body });
    const expected = source === 'awardee' ? DUPLICATE : answered(overHttp);
    expect(shown(direct)).toBe(expected);
    for (const name of ['allow', 'retry-after']) expect(direct.headers?.[name]).toBe(overHttp.headers[name]);
  });

  it('are counted as those over HTTP when they are refused unread', () => {
    const counts = (rejections: Rejections) =>
      rejections.counts().filter(({ reason }) => ['wrong-method', 'http-413'].includes(reason));
    expect(counts(context.get(Rejections))).toEqual(counts(receiver.app.get(Rejections)));
    expect(counts(context.get(Rejections))).toHaveLength(2);
  });

  it('are refused when a header that counts comes twice', async () => {
    const { headers, body } = sesmetric({ id: 'twice', type: 't' });
    const twice = { ...headers, 'X-SESMetric-Signature': [headers['X-SESMetric-Signature']!, 'x'] };
    expect(shown(await context.get(Inbox).receive('sesmetric', { headers: twice, rawBody: body }))).toBe(
      UNAUTHORIZED,
    );
  });

  it('throw for a source that is not configured: that is the application’s mistake, not the sender’s', async () => {
    await expect(
      context.get(Inbox).receive('awarde', { headers: {}, rawBody: Buffer.alloc(0) }),
    ).rejects.toMatchObject({
      code: 'UNKNOWN_SOURCE',
      message: "No source 'awarde' is configured; did you mean 'awardee'?",
    });
  });

  it('cut a name that is whatever was sent', async () => {
    const received = { headers: {}, rawBody: Buffer.alloc(0) };
    await expect(context.get(Inbox).receive('x'.repeat(10_000), received)).rejects.toThrow(
      `No source '${'x'.repeat(127)}…' is configured; known: `,
    );
  });

  it('need no id in a header that HTTP would demand', async () => {
    expect(await receive('awardee', { ...awardee('x', 't', '{}'), headers: {} })).toBe(UNAUTHORIZED);
    expect(await receive('sesmetric', sesmetric('{}'))).toBe(INVALID);
    expect(await receive('sesmetric', genuine, 'DELETE')).toBe(WRONG_METHOD);
  });
});

describe.each(ADAPTERS)('WebhooksModule.forRootAsync on %s', (adapter) => {
  it('takes its options from a factory, and its route options beside it', async () => {
    @Injectable()
    class Vault {
      readonly secret = SESMETRIC_SECRET;
    }
    @Module({ providers: [Vault], exports: [Vault] })
    class VaultModule {}

    const database = await createDatabase();
    const webhooks = WebhooksModule.forRootAsync({
      imports: [VaultModule],
      inject: [Vault],
      controller: { path: 'hooks' },
      useFactory: async (vault: Vault) => ({
        sources: { sesmetric: sesmetricSource({ secrets: [vault.secret], maxBytes: 100 }) },
      }),
    });
    const { app, origin } = await startHost(adapter, {
      databaseUrl: database.url,
      webhooks,
      providers: [Handlers],
    });
    const deliver = async (path: string) =>
      answered(await send(origin, { path, ...sesmetric({ id: 'async', type: 't' }) }));
    expect(await deliver('/hooks/sesmetric')).toBe(OK);
    expect(await deliver('/hooks/sesmetric')).toBe(DUPLICATE);
    expect(await deliver('/webhooks/sesmetric')).toMatch(/^404 /);
    await app.close();
    await database.drop();
  });
});

const shown = ({ status, body }: Answer) =>
  `${status} ${typeof body === 'string' ? body : JSON.stringify(body)}`;
