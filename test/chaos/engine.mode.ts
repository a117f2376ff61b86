import { join } from 'node:path';
import { Client } from 'pg';
import { startNats, startRabbitmq, startRedis } from '../support/engines.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { checkEngine, type EngineTables } from './check/engine.js';
import type { Ground, ModeReport } from './modes.js';
import type { ChaosOptions } from './options.js';
import { engineFaults } from './play/engine.js';
import { Fleet, LEASE_MS } from './play/fleet.js';
import { Log, LOGS, readLog, type Sent, type SinkCall } from './play/log.js';
import { planOf } from './play/plan.js';
import { Provider } from './play/provider.js';
import { ChaosSink } from './play/sink.js';
import { ENGINE_EFFECTS } from './receiver/engine.js';
import { createStageDatabase } from './support/stage-database.js';
import { untilNoneLeft } from './support/sleep-until.js';

/** Without a further effect that has ended. The longest delay between two attempts is shorter. */
const STALL_MS = 120_000;
const STARTERS = { bullmq: startRedis, nats: startNats, rabbitmq: startRabbitmq } as const;
const RELAYS = 2;
const CONSUMERS = 2;

/** See `engineFaults`; judged by `checkEngine`. */
export async function playEngine(
  { dir, adapter, seed, stages, engine: name }: ChaosOptions,
  { databaseUrl, program, compile, say }: Ground,
): Promise<ModeReport> {
  const engine = await STARTERS[name!]();
  const network = await TcpProxy.start(engine.url);
  const consumersUrl = await createStageDatabase(databaseUrl, `chaos_${seed}_consumers`);
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const logs = {
    sink: new Log<SinkCall>(join(dir, LOGS.sink)),
    sent: new Log<Sent>(join(dir, LOGS.provider)),
  };
  const sink = await ChaosSink.start(logs.sink, LEASE_MS / 2);
  const env = () => ({ ENGINE: name!, ENGINE_URL: network.url });
  const common = { adapter, dir, sinkUrl: sink.url, env };
  const fleets: Fleet[] = [];
  try {
    const relays = await Fleet.start({ ...common, databaseUrl, program, size: RELAYS });
    fleets.push(relays);
    const consumer = await compile('test/chaos/receiver/consumer.ts');
    const consumers = await Fleet.start({
      ...common,
      databaseUrl: consumersUrl,
      program: consumer,
      size: CONSUMERS,
      name: 'consumer',
    });
    fleets.push(consumers);
    const count = stages.reduce((sum, stage) => sum + stage.events, 0);
    const provider = new Provider(planOf(seed, 0, count).events, () => relays.next(), logs.sent);
    const told = await engineFaults({ relays, consumers, engine, network, provider, seed, say });
    await untilNoneLeft(() => owed(client), STALL_MS);
    await Promise.all(fleets.map((fleet) => fleet.stop()));
    await Promise.all([logs.sink.close(), logs.sent.close()]);
    const verdict = checkEngine(
      await readTables(client, consumersUrl),
      {
        sent: readLog<Sent>(join(dir, LOGS.provider)),
        calls: readLog<SinkCall>(join(dir, LOGS.sink)),
      },
      told,
    );
    return { mode: 'engine', ...verdict };
  } finally {
    await Promise.all(fleets.map((fleet) => fleet.stop()));
    sink.stop();
    await client.end();
    await network.stop();
    await engine.stop();
  }
}

async function owed(client: Client): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    `SELECT count(*)::int AS count FROM webhook_outbox WHERE state IN ('pending', 'handed')`,
  );
  return rows[0]!.count;
}

const EVENTS = `
  SELECT c.source, c.event_id AS "eventId", coalesce(r.applied_count, 0) AS applied
    FROM webhook_claim c LEFT JOIN chaos_record r USING (source, event_id)`;

async function readTables(client: Client, consumersUrl: string): Promise<EngineTables> {
  const consumers = new Client({ connectionString: consumersUrl });
  await consumers.connect();
  try {
    const events = await client.query<EngineTables['events'][number]>(EVENTS);
    const effects = await client.query<EngineTables['effects'][number]>(
      'SELECT id::text, state FROM webhook_outbox WHERE name = ANY($1)',
      [ENGINE_EFFECTS],
    );
    const notDone = await client.query<EngineTables['notDone'][number]>(
      `SELECT name, state FROM webhook_outbox WHERE state NOT IN ('done', 'cancelled') AND name <> ALL($1)`,
      [ENGINE_EFFECTS],
    );
    const consumed = await consumers.query<{ id: string }>(
      'SELECT outbox_id::text AS id FROM webhook_consumed',
    );
    return {
      events: events.rows,
      effects: effects.rows,
      notDone: notDone.rows,
      consumed: consumed.rows.map(({ id }) => id),
    };
  } finally {
    await consumers.end();
  }
}
