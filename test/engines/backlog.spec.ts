import { metrics } from '@opentelemetry/api';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { Revivals, Stats, WebhookHealth } from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { Engines } from '../../src/outbox/engine/engines.js';
import { bullmq } from '../../src/transports/bullmq/index.js';
import { CommandLine } from '../support/command-line/command-line.js';
import { startRedis, type Engine } from '../support/engines.js';
import type { TestInbox } from '../integration/support/inbox.js';
import { enqueue, failures, inState, permanent, startConsumer, startSender } from './support.js';

const prometheus = new PrometheusExporter({ preventServerStart: true });
let redis: Engine;
let line: CommandLine;
let nth = 0;
const open: { close(): Promise<unknown> }[] = [];

beforeAll(async () => {
  metrics.setGlobalMeterProvider(new MeterProvider({ readers: [prometheus] }));
  [redis, line] = await Promise.all([startRedis(), CommandLine.build()]);
});
afterAll(async () => {
  metrics.disable();
  await redis?.stop();
  await line?.remove();
});
beforeEach(() => void (nth += 1));
afterEach(async () => {
  for (const one of open.splice(0).toReversed()) await one.close();
  failures.clear();
});

const transport = () => {
  const { hostname: host, port } = new URL(redis.url);
  return bullmq({ connection: { host, port: Number(port) }, name: `backlog-${nth}` });
};
async function sender(unheardAfter: string): Promise<TestInbox> {
  const inbox = await startSender([{ transport: transport(), effects: ['mail'], unheardAfter }]);
  open.push({ close: () => inbox.stop() });
  return inbox;
}
const handedNow = async ({ app }: TestInbox) => (await app.get(Stats).overview('hour')).now.handed;

it('effects that an engine has are counted by status, metrics and health, until they are reported', async () => {
  const inbox = await sender('1h');
  const ids = await enqueue(inbox, 'mail', ['ann', 'bob', 'cid']);
  await inState(inbox, 'handed', ids);
  await inbox.query(
    `UPDATE webhook_outbox SET begun_at = begun_at - interval '2 hours' WHERE id = $1`,
    ids.slice(0, 1),
  );
  const seen = { name: 'mail', rows: 3, ageMs: expect.closeTo(7_200_000, -5) as number, unheard: 0 };
  expect(await handedNow(inbox)).toEqual([seen]);

  const status = () => line.run(['status', '--json'], { DATABASE_URL: inbox.database.url });
  expect(JSON.parse((await status()).out)).toMatchObject({
    owed: { pending: 0, handed: 3 },
    handed: [seen],
  });
  const { out } = await line.run(['status'], { DATABASE_URL: inbox.database.url });
  expect(out).toMatch(/^PENDING +RUNNING +HANDED .*\n *0 +0 +3 /);
  expect(out).toMatch(/HANDED TO AN ENGINE +ROWS +OLDEST +UNHEARD *\nmail +3 +2 h +0/);

  expect(await inbox.app.get(WebhookHealth).readiness()).toMatchObject({
    webhooks: { status: 'up', handed: 3, unheard: 0 },
  });

  await inbox.app.get(DeskKeeper).round();
  const text = await scraped();
  expect(text).toMatch(/webhook_inbox_backlog_rows\{[^}]*state="handed"[^}]*\} 3\b/);
  expect(text).toMatch(/webhook_inbox_handed_age\{[^}]*name="mail"[^}]*\} 72\d\d/);
  expect(text).toMatch(/webhook_inbox_handed_unheard\{[^}]*name="mail"[^}]*\} 0\b/);

  open.push(await startConsumer(transport()));
  await inState(inbox, 'done', ids);
  expect(await handedNow(inbox)).toEqual([]);
});

it('an effect counts as unheard from the end of its time, through its next hand-over, until a person revives it', async () => {
  const inbox = await sender('1h');
  const [late, again, inTime] = (await enqueue(inbox, 'mail', ['late', 'again', 'in time'])) as [
    string,
    string,
    string,
  ];
  await inState(inbox, 'handed', [late, again, inTime]);
  await inbox.query(`UPDATE webhook_outbox SET due_at = now() WHERE id = $1`, [again]);
  expect(await inbox.app.get(Engines).takeBackUnheard()).toBe(1);
  await inState(inbox, 'handed', [again]);
  await inbox.query(`UPDATE webhook_outbox SET due_at = now() WHERE id = $1`, [late]);
  expect(await handedNow(inbox)).toMatchObject([{ name: 'mail', rows: 3, unheard: 2 }]);

  failures.set('again', permanent);
  const consumer = await startConsumer(transport());
  await inState(inbox, 'dead', [again]);
  await inState(inbox, 'done', [inTime]);
  await consumer.close();
  await inbox.app.get(Revivals).revive([again], { by: 'ann', reason: 'mended' });
  await inState(inbox, 'handed', [again]);
  expect((await handedNow(inbox)).map(({ unheard }) => unheard)).toEqual([0]);
});

function scraped(): Promise<string> {
  return new Promise((resolve) => {
    const answer = { statusCode: 0, setHeader: () => undefined, end: resolve };
    prometheus.getMetricsRequestHandler({} as never, answer as never);
  });
}
