import { join } from 'node:path';
import { Client } from 'pg';
import { checkRaces, type RacedTables } from './check/races.js';
import type { Ground, ModeReport } from './modes.js';
import type { ChaosOptions } from './options.js';
import { unsettled } from './play/coroner.js';
import { Fleet, LEASE_MS } from './play/fleet.js';
import { Log, LOGS, readLog, type Sent, type SinkCall } from './play/log.js';
import { planOf } from './play/plan.js';
import { Provider } from './play/provider.js';
import { races } from './play/races.js';
import { ChaosSink } from './play/sink.js';
import { buildEdited } from './support/build.js';
import { sleepUntil } from './support/sleep-until.js';

const DRAIN_MS = 120_000;

/** A change of tables as later versions make them: it only adds. The build from after it writes the column. */
const SAMPLE_MIGRATION = 'ALTER TABLE webhook_outbox ADD COLUMN settled_build text';
const AFTER_IT = {
  file: 'src/storage/settle.sql.ts',
  find: "const DONE = `state = 'done',",
  replace: "const DONE = `settled_build = 'after', state = 'done',",
};

/** See `races`; judged by `checkRaces`. */
export async function playRaces(
  { dir, adapter, seed, stages }: ChaosOptions,
  { databaseUrl, program, say }: Ground,
): Promise<ModeReport> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const edited = await buildEdited([AFTER_IT]);
  const logs = {
    sink: new Log<SinkCall>(join(dir, LOGS.sink)),
    sent: new Log<Sent>(join(dir, LOGS.provider)),
  };
  const sink = await ChaosSink.start(logs.sink, LEASE_MS / 2);
  const fleet = await Fleet.start({ databaseUrl, adapter, dir, program, sinkUrl: sink.url });
  try {
    const count = stages.reduce((sum, stage) => sum + stage.events, 0);
    const provider = new Provider(planOf(seed, 0, count).events, () => fleet.next(), logs.sent);
    const told = await races({
      fleet,
      provider,
      client,
      seed,
      before: { program, env: { EXTRA: '0' } },
      after: { program: await edited.bundled('test/chaos/receiver/main.ts'), env: { EXTRA: '1' } },
      migrate: async () => void (await client.query(SAMPLE_MIGRATION)),
      say,
    });
    // The reconciler's pass comes up to a minute after the boot: nothing may be pending before it.
    await sleepUntil(async () => (await unsettled(client)) === 0 && !(await isShort(client)), DRAIN_MS);
    await fleet.stop();
    await Promise.all([logs.sink.close(), logs.sent.close()]);
    const verdict = checkRaces(
      await readRaces(client, told.migratedAt),
      {
        sent: readLog<Sent>(join(dir, LOGS.provider)),
        calls: readLog<SinkCall>(join(dir, LOGS.sink)),
      },
      told,
    );
    return { mode: 'races', ...verdict };
  } finally {
    await fleet.stop();
    await edited.remove();
    sink.stop();
    await client.end();
  }
}

/** Whether an event lacks the row of the later build's handler. */
async function isShort(client: Client): Promise<boolean> {
  const { rows } = await client.query(
    `SELECT 1 FROM webhook_claim c WHERE source = 'own' AND 2 > (
       SELECT count(*) FROM webhook_outbox o
        WHERE o.kind = 'handler' AND o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id)
      LIMIT 1`,
  );
  return rows.length > 0;
}

const EVENTS = `
  SELECT c.source, c.event_id AS "eventId", coalesce(r.applied_count, 0) AS applied,
         coalesce(e.applied_count, 0) AS "appliedExtra",
         (SELECT count(*)::int FROM webhook_replay p WHERE p.claim_id = c.id) AS replays,
         count(o.id) FILTER (WHERE o.kind = 'handler')::int AS handlers,
         count(o.id) FILTER (WHERE o.kind = 'effect')::int AS effects
    FROM webhook_claim c
    LEFT JOIN chaos_record r USING (source, event_id)
    LEFT JOIN chaos_record e ON c.source = 'own' AND e.source = 'extra' AND e.event_id = c.event_id
    LEFT JOIN webhook_outbox o ON o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id
   GROUP BY c.id, c.source, c.event_id, r.applied_count, e.applied_count`;

const SETTLED = `
  SELECT count(*) FILTER (WHERE settled_build IS NULL)::int AS "settledBefore", count(settled_build)::int AS "settledAfter"
    FROM webhook_outbox WHERE settled_at > to_timestamp($1::float8 / 1000)`;

async function readRaces(client: Client, migratedAt: number): Promise<RacedTables> {
  const events = await client.query<RacedTables['events'][number]>(EVENTS);
  const notDone = await client.query<RacedTables['notDone'][number]>(
    `SELECT name, state FROM webhook_outbox WHERE state NOT IN ('done', 'cancelled')`,
  );
  const leased = await client.query<{ leased: number }>(
    'SELECT count(leased_by)::int AS leased FROM webhook_outbox',
  );
  const settled = await client.query<Pick<RacedTables, 'settledBefore' | 'settledAfter'>>(SETTLED, [
    migratedAt,
  ]);
  return { events: events.rows, notDone: notDone.rows, leased: leased.rows[0]!.leased, ...settled.rows[0]! };
}
