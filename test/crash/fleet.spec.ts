import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from 'pg';
import { barrier } from '../chaos/play/barrier.js';
import { unsettled } from '../chaos/play/coroner.js';
import { Fleet } from '../chaos/play/fleet.js';
import type { Sent, SinkCall } from '../chaos/play/log.js';
import { planOf } from '../chaos/play/plan.js';
import { Provider } from '../chaos/play/provider.js';
import { rolling } from '../chaos/play/rolling.js';
import { ChaosSink } from '../chaos/play/sink.js';
import { storm } from '../chaos/play/storm.js';
import { CHAOS_TABLES } from '../chaos/receiver/tables.js';
import { build, type Build } from '../chaos/support/build.js';
import { until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';

// Three receivers in processes of their own, on one database.
let built: Build;
let database: TestDatabase;
let client: Client;
let sink: ChaosSink;
let fleet: Fleet;
let dir: string;
let program: string;
const sent: Sent[] = [];
const calls: SinkCall[] = [];

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'webhook-fleet-'));
  built = await build();
  program = built.path('test/chaos/receiver/main.ts');
  database = await createDatabase();
  await database.query(CHAOS_TABLES);
  client = new Client({ connectionString: database.url });
  await client.connect();
  sink = await ChaosSink.start({ write: (call) => void calls.push(call) }, 100);
  fleet = await Fleet.start({
    databaseUrl: database.url,
    adapter: 'express',
    dir,
    program,
    sinkUrl: sink.url,
    env: () => ({ BEFORE: '1' }),
  });
}, 180_000);
afterAll(async () => {
  await fleet?.stop();
  sink?.stop();
  await client?.end();
  await database?.drop();
  await built?.remove();
  await rm(dir, { recursive: true, force: true });
}, 60_000);

it('case 3 R34: of 50 copies released at once over three processes one is told ok, round after round, and the others duplicate', async () => {
  const rounds = 30;
  const report = await barrier(
    fleet.receivers.map(({ origin }) => origin),
    rounds,
  );
  expect(report).toMatchObject({
    wrongRounds: 0,
    answers: { '200 {"status":"ok"}': rounds, '200 {"status":"duplicate"}': 49 * rounds },
  });
  await settled();
  expect(await database.query(`SELECT FROM chaos_record WHERE applied_count <> 1`)).toEqual([]);
}, 120_000);

it('R24: a storm of duplicates of billing events passes while their handler is slow: totals are right, the backlog goes, nobody acts', async () => {
  const events = 60;
  const report = await storm({
    origin: () => fleet.next().origin,
    client,
    ms: 8_000,
    events,
    drainMs: 60_000,
  });
  expect(report).toMatchObject({ claims: events, wrongTotals: 0, pendingAfter: 0 });
  expect(report.answers['200 {"status":"ok"}']).toBe(events);
  // It was a storm, and there was a backlog.
  expect(report.answers['200 {"status":"duplicate"}']).toBeGreaterThan(3 * events);
  expect(report.mostPending).toBeGreaterThan(0);
  const odd = Object.keys(report.answers).filter((answer) => !/^200 |^503 |^0$/.test(answer));
  expect(odd).toEqual([]);
}, 120_000);

it('R03 case 46: receivers of before and of now are restarted in turn while events flow: each ends in peace, none is lost, none handled twice', async () => {
  const { events } = planOf(46, 0, 240);
  const provider = new Provider(events, () => fleet.next(), { write: (one) => void sent.push(one) });
  const versions = [
    { program, env: { BEFORE: '0' } },
    { program, env: { BEFORE: '1' } },
  ];
  const { exits } = await rolling(fleet, provider, versions);
  expect(new Set(exits)).toEqual(new Set([0]));
  await settled();
  const acknowledged = new Set(sent.filter(({ status }) => status === 200).map(({ id }) => id));
  expect(acknowledged.size).toBe(events.length);
  const claims = await database.query<{ event_id: string }>(
    `SELECT event_id FROM webhook_claim JOIN chaos_record r USING (source, event_id)
      WHERE event_id LIKE 'chaos-46-%' AND r.applied_count = 1`,
  );
  expect(new Set(claims.map((claim) => claim.event_id))).toEqual(acknowledged);
  for (const { id } of events) {
    const keys = calls.filter((call) => call.applied && call.eventId === id).map(({ key }) => key);
    expect(new Set(keys).size).toBe(1);
  }
}, 240_000);

async function settled(): Promise<void> {
  await until(async () => (await unsettled(client)) === 0, 60_000);
}
