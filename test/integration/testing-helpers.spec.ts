import { Controller, Post } from '@nestjs/common';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ExpressAdapter } from '@nestjs/platform-express';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Inbox, OnWebhook, Pauses, UseWebhook, WebhooksModule } from '../../src/index.js';
import {
  advance,
  deliver,
  drain,
  expectEvent,
  failNext,
  fakeEffect,
  runDue,
} from '../../src/testing/index.js';
import { until } from '../support/application.js';
import { createDatabase, options } from '../support/database.js';
import { Latch } from '../support/latch.js';
import { awardeeSource, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

const event = (id: string) => ({ id, type: 'grant.made', payload: { grant: 'g-7' } });

describe('runDue beside the relay’s own rounds', () => {
  const script: Partial<Script> = {};
  let inbox: TestInbox;
  beforeAll(async () => {
    inbox = await startInbox({ loop: true, providers: [scripted(script)] });
  });
  afterAll(() => inbox?.stop());

  it('waits for a run that they have begun, and for what it enqueues, and counts both', async () => {
    let begun = false;
    const go = new Latch();
    script.handle = async (_event, { enqueue }) => {
      begun = true;
      await go.wait();
      await enqueue('mail', { to: 'a' });
    };
    await deliver(inbox.app, 'awardee', event('d-1'));
    await until(() => begun);
    const ended = runDue(inbox.app);
    go.open();
    expect(await ended).toMatchObject({ leased: 2, done: 2 });
    expect(await inbox.rows(`state <> 'done'`)).toEqual([]);
  });

  it('counts what they have done before it was called, once', async () => {
    script.handle = (_event, { enqueue }) => enqueue('mail', { to: 'b' });
    await deliver(inbox.app, 'awardee', event('d-2'));
    await until(async () => (await inbox.rows(`state = 'done' AND kind = 'effect'`)).length === 2);
    expect(await runDue(inbox.app)).toMatchObject({ done: 2 });
    expect(await runDue(inbox.app)).toMatchObject({ leased: 0, done: 0 });
  });

  it('says the same whoever was first, and leaves the rounds on', async () => {
    script.handle = (_event, { enqueue }) => enqueue('mail', { to: 'c' });
    for (const id of ['d-3', 'd-4', 'd-5']) {
      await deliver(inbox.app, 'awardee', event(id));
      expect(await runDue(inbox.app)).toMatchObject({ leased: 2, done: 2, retried: 0 });
    }
    await deliver(inbox.app, 'awardee', event('d-6'));
    await until(async () => (await inbox.rows(`state = 'done' AND event_id = 'd-6'`)).length > 0);
  });
});

describe('deliver', () => {
  let inbox: TestInbox;
  beforeAll(async () => {
    inbox = await startInbox({ providers: [scripted({ handle: async () => undefined })] });
  });
  afterAll(() => inbox?.stop());

  it.each([
    ['awarde', "did you mean 'awardee'?"],
    ['strip', 'known: awardee'],
  ])('to the unknown source %s says which there are', async (name, hint) => {
    await expect(deliver(inbox.app, name, event('d-1'))).rejects.toMatchObject({
      code: 'UNKNOWN_SOURCE',
      message: `No source '${name}' is configured; ${hint}`,
    });
  });

  const circle: Record<string, unknown> = {};
  circle.circle = circle;
  const JSON_EXPECTED = '.payload: expected a payload that JSON can hold, received ';
  const DATE_EXPECTED = ".occurredAt: expected a Date, such as new Date('2026-11-30T12:00:00Z'), received ";
  it.each([
    ['no event', undefined, ': expected object, received undefined'],
    ['no payload', { id: 'd-2', type: 't' }, `${JSON_EXPECTED}undefined`],
    ['a payload with a bigint', { ...event('d-2'), payload: { amount: 1n } }, `${JSON_EXPECTED}an object`],
    ['a payload that holds itself', { ...event('d-2'), payload: circle }, `${JSON_EXPECTED}an object`],
    [
      'no type',
      { id: 'd-2', payload: {} },
      ".type: expected the type of the event, such as 'invoice.paid', received undefined",
    ],
    [
      'no id',
      { type: 't', payload: {} },
      ".id: expected the provider's id of the event, as text, received undefined",
    ],
    ['a time as text', { ...event('d-2'), occurredAt: '2026-11-30' }, `${DATE_EXPECTED}'2026-11-30'`],
    ['a time that is none', { ...event('d-2'), occurredAt: new Date('never') }, `${DATE_EXPECTED}an object`],
    [
      'a tenant that is no text',
      { ...event('d-2'), tenant: 7 },
      '.tenant: expected the name of the tenant, received 7',
    ],
  ])('of %s says what is expected', async (_, given, message) => {
    await expect(deliver(inbox.app, 'awardee', given as never)).rejects.toMatchObject({
      code: 'INPUT_REFUSED',
      message: `deliver() event${message}`,
    });
  });

  it.each([null, 'text', 7, [], { occurred: true }])('takes the payload %j', async (payload) => {
    const given = {
      ...event(`json-${JSON.stringify(payload)}`),
      payload,
      occurredAt: new Date(),
      tenant: 'a',
    };
    expect(await deliver(inbox.app, 'awardee', given)).toEqual({ kind: 'ok' });
  });

  it('of a source that has no name says which there are', async () => {
    await expect(deliver(inbox.app, undefined as never, event('d-3'))).rejects.toThrow(
      "No source 'undefined' is configured; known: awardee",
    );
  });
});

describe('an application that is not initialised', () => {
  it.each([
    ['express', () => new ExpressAdapter()],
    ['fastify', () => new FastifyAdapter()],
  ])('is refused with what to call, since no handler would match yet (%s)', async (_, adapter) => {
    const database = await createDatabase();
    const moduleRef = await Test.createTestingModule({
      imports: [
        TypeOrmModule.forRoot({ ...options(database.url), retryAttempts: 0 }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({ sources: { awardee: awardeeSource() } }),
      ],
      providers: [scripted({})],
    }).compile();
    const app = moduleRef.createNestApplication(adapter() as never, { logger: false });
    const tooEarly = { message: expect.stringContaining('`await app.init()`'), code: 'CONFIGURATION' };
    await expect(deliver(app, 'awardee', event('d-1'))).rejects.toMatchObject(tooEarly);
    await expect(runDue(app)).rejects.toMatchObject(tooEarly);
    const received = { headers: {}, rawBody: Buffer.from('{}') };
    await expect(app.get(Inbox).receive('awardee', received)).rejects.toMatchObject(tooEarly);
    await app.init();
    expect(await deliver(app, 'awardee', event('d-1'))).toEqual({ kind: 'ok' });
    expect(await runDue(app)).toMatchObject({ done: 1 });
    await app.close();
    await database.drop();
  });
});

describe('an event that only a route takes', () => {
  @Controller('billing')
  class Billing {
    @Post('hook')
    @UseWebhook('awardee')
    hook() {}

    @OnWebhook('awardee', 'grant.*')
    granted() {}
  }

  it('is refused with the path to send it to; one that a handler takes too is delivered', async () => {
    const inbox = await startInbox({ controllers: [Billing] });
    await expect(deliver(inbox.app, 'awardee', { ...event('d-1'), type: 'other' })).rejects.toThrow(
      "deliver(): only a route with @UseWebhook takes 'other' of source 'awardee', and a route runs over HTTP: " +
        'send a signed request to /billing/hook of app.getHttpServer() instead',
    );
    expect(await deliver(inbox.app, 'awardee', event('d-1'))).toEqual({ kind: 'ok' });
    await inbox.stop();
  });
});

describe('the testing kit', () => {
  const script: Partial<Script> = {};
  let inbox: TestInbox;
  beforeAll(async () => {
    inbox = await startInbox({
      loop: true,
      providers: [
        // A handler's retry is not due before time is advanced, however slow the machine.
        scripted(script, {
          handler: { retry: { maxAttempts: 3, base: '20m', cap: '30m' } },
          effect: { retry: { maxAttempts: 3 } },
        }),
      ],
    });
  });
  beforeEach(() => {
    script.handle = (_event, { enqueue }) => enqueue('mail', { to: 'a' });
    script.effect = () => undefined;
  });
  afterAll(() => inbox?.stop());

  it('delivers an event twice, which is one event', async () => {
    expect(await deliver.twice(inbox.app, 'awardee', event('k-1'))).toEqual([
      { kind: 'ok' },
      { kind: 'duplicate' },
    ]);
    expect(await drain(inbox.app)).toMatchObject({ done: 2 });
    expect(await expectEvent(inbox.app, 'k-1')).toMatchObject({
      state: 'processed',
      runs: [{ attempts: 1 }],
    });
  });

  it('delivers events in another order, and in the same one for a seed', async () => {
    const events = (run: number) => Array.from({ length: 6 }, (_, nth) => event(`k-2-${run}-${nth}`));
    const order = (ids: readonly string[]) => ids.map((id) => id.at(-1)).join('');
    const first = await deliver.shuffled(inbox.app, 'awardee', events(1), 7);
    const second = await deliver.shuffled(inbox.app, 'awardee', events(2), 7);
    expect(order(first.order)).toBe(order(second.order));
    expect(order(first.order)).not.toBe('012345');
    expect(first.order.toSorted()).toEqual(events(1).map(({ id }) => id));
    expect(first.verdicts).toEqual(events(1).map(() => ({ kind: 'ok' })));
    const { seed } = await deliver.shuffled(inbox.app, 'awardee', [event('k-2-3')]);
    expect(Number.isInteger(seed)).toBe(true);
    expect(await drain(inbox.app)).toMatchObject({ done: 26 });
  });

  it('fakes an effect, and has its calls by key', async () => {
    let refusals = 1;
    const fake = fakeEffect(inbox.app, 'mail', () => {
      if (refusals-- > 0) throw new Error('the mail server is away');
    });
    script.effect = () => {
      throw new Error('the real effect ran');
    };
    await deliver(inbox.app, 'awardee', event('k-3'));
    expect(await drain(inbox.app)).toMatchObject({ retried: 1, done: 2 });
    const { effects } = await expectEvent(inbox.app, 'k-3');
    expect(effects).toMatchObject([
      { effect: 'mail', key: '', payload: { to: 'a' }, state: 'done', attempts: 2 },
    ]);
    const key = effects[0]!.idempotencyKey;
    expect(fake.calls).toEqual([1, 2].map((attempt) => ({ key, payload: { to: 'a' }, attempt })));
    expect([...fake.byKey.keys()]).toEqual([key]);
    fake.restore();
    script.effect = () => 'sent';
    await deliver(inbox.app, 'awardee', event('k-4'));
    expect(await runDue(inbox.app)).toMatchObject({ done: 2 });
    expect(fake.calls).toHaveLength(2);
  });

  it('fails the next run of a handler, whose retry waits until its time is made to come', async () => {
    failNext(inbox.app, 'awardee/handle', new Error('planted'));
    await deliver(inbox.app, 'awardee', event('k-5'));
    expect(await runDue(inbox.app)).toMatchObject({ retried: 1, done: 0 });
    const failed = { state: 'pending', runs: [{ handler: 'awardee/handle', attempts: 1 }], effects: [] };
    const event5 = await expectEvent(inbox.app, 'k-5');
    expect(event5).toMatchObject(failed);
    expect(event5.runs[0]!.error).toContain('planted');
    expect(await runDue(inbox.app)).toMatchObject({ leased: 0 });
    await advance(inbox.app, '1h');
    expect(await runDue(inbox.app)).toMatchObject({ done: 2 });
    expect(await expectEvent(inbox.app, 'k-5')).toMatchObject({
      state: 'processed',
      runs: [{ attempts: 2, state: 'done' }],
      effects: [{ state: 'done' }],
    });
  });

  it('drains delayed effects, and ends where a pause keeps work back', async () => {
    script.handle = (_event, { enqueue }) => enqueue('mail', { to: 'b' }, { delayMs: 3_600_000 });
    await deliver(inbox.app, 'awardee', event('k-6'));
    expect(await drain(inbox.app)).toMatchObject({ done: 2 });
    const why = { by: 'a test', reason: 'to see' };
    await inbox.app.get(Pauses).pause('effect', 'mail', why);
    await deliver(inbox.app, 'awardee', event('k-7'));
    expect(await drain(inbox.app)).toMatchObject({ done: 1 });
    await inbox.app.get(Pauses).resume('effect', 'mail', why);
    expect(await drain(inbox.app)).toMatchObject({ done: 1 });
  });

  it.each<[string, () => unknown, string]>([
    ['an effect', () => fakeEffect(inbox.app, 'mial'), "no effect is called 'mial'; did you mean 'mail'?"],
    [
      'a handler',
      () => failNext(inbox.app, 'awardee/handel', new Error('x')),
      "no handler or effect is called 'awardee/handel'; did you mean 'awardee/handle'?",
    ],
    [
      'a time',
      () => advance(inbox.app, 'soon'),
      "expected milliseconds or text such as '5m', received 'soon'",
    ],
    ['an event', () => expectEvent(inbox.app, 'k-none'), 'none has this id; the last ones are k-7, '],
  ])('says what is expected for %s that is none', async (_, call, message) => {
    await expect(async () => call()).rejects.toThrow(message);
  });
});
