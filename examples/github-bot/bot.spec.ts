import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { DataSource } from 'typeorm';
// In your application: 'nestjs-webhook-inbox/testing'.
import { crashEverywhere, deliver, drain, expectEvent, signWebhook } from '../../src/testing/index.js';
import { listen } from '../../test/support/application.js';
import { createDatabase, type TestDatabase } from '../../test/support/database.js';
import { FakeSink } from '../../test/support/fake-sink.js';
import { BotModule } from './app.module.js';
import { Greeted } from './greeted.entity.js';

let database: TestDatabase;
/** GitHub's API, with the comments that it was given. */
let github: FakeSink;
const comments: { readonly issue: string; readonly body: string }[] = [];

beforeAll(async () => {
  database = await createDatabase({ empty: true });
  github = await FakeSink.start();
  github.answer = (response, { method, url, body }) => {
    const issue = url.replace(/\?.*/, '');
    if (method === 'POST') comments.push({ issue, body: (JSON.parse(body) as { body: string }).body });
    const listed = comments.filter((one) => one.issue === issue);
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(listed));
  };
});
afterAll(async () => {
  await github.stop();
  await database.drop();
});

const githubSecret = 'It is no secret';

async function start() {
  const settings = { databaseUrl: database.url, githubSecret, apiUrl: github.origin, apiToken: 'token' };
  const module = await Test.createTestingModule({ imports: [BotModule.with(settings)] }).compile();
  return module.createNestApplication({ logger: false }).init();
}

const opened = (login: string, issue: number) => ({
  action: 'opened',
  repository: { full_name: 'acme/shop' },
  issue: { number: issue, user: { login } },
});

let app: INestApplication | undefined;
afterEach(() => app?.close());

it('greets a person at the first issue, once', async () => {
  app = await start();
  const origin = await listen(app);
  for (const [id, issue] of [
    ['d-1', 1],
    ['d-1', 1],
    ['d-2', 2],
  ] as const) {
    const signed = signWebhook('github', {
      secret: githubSecret,
      id,
      type: 'issues',
      body: opened('ann', issue),
    });
    const { method, headers, body } = signed;
    const answer = await fetch(`${origin}/webhooks/github`, { method, headers, body: new Uint8Array(body) });
    expect(answer.status).toBe(200);
    // Events of two issues have no order: the first one is done before the second comes.
    await drain(app);
  }
  expect(await app.get(DataSource).getRepository(Greeted).find()).toEqual([
    { repository: 'acme/shop', login: 'ann', issue: 1 },
  ]);
  expect(comments).toHaveLength(1);
  const { effects } = await expectEvent(app, 'd-1');
  expect(comments[0]!.body).toContain(effects[0]!.idempotencyKey);
  expect(await expectEvent(app, 'd-2')).toMatchObject({
    runs: [{ result: 'was greeted before' }],
    effects: [],
  });
});

it('writes one comment, wherever it crashes', async () => {
  app = undefined;
  comments.length = 0;
  const people = new Set<string>();
  await crashEverywhere(start, (app, id) => {
    people.add(id);
    return deliver(app, 'github', { id, type: 'issues', payload: opened(id, 3) });
  });
  expect(comments).toHaveLength(people.size);
  expect(people.size).toBeGreaterThan(6);
});
