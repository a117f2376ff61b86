import { Client } from 'pg';
import { worker } from './drain.js';
import { receiver } from './ingest.js';
import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';

/** What grows: ingest into a table that is full, and drains while a transaction pins a snapshot. */
export async function scale(server: Server, settings: Settings): Promise<Measured[]> {
  return [...(await claims(server, settings)), ...(await pinned(server, settings))];
}

async function claims(server: Server, settings: Settings): Promise<Measured[]> {
  const load = await start('programs/load.ts', {});
  const programs: Program[] = [load];
  const contenders: Contender[] = [];
  try {
    for (const count of [0, settings.claims]) {
      const databaseUrl = await server.database(`scale_${count}`);
      if (count > 0) await fill(databaseUrl, count);
      const given = { kind: 'ours', adapter: 'fastify', databaseUrl };
      const program = await start('programs/receiver.ts', given);
      programs.push(program);
      const name = count === 0 ? 'ingest, empty' : 'ingest, full';
      const path = { path: '/webhooks/bench', scheme: 'hmac' } as const;
      contenders.push(receiver(name, program, load, path, settings));
    }
    return await inTurn(server, contenders, settings, load);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}

/** Settled events with random ids, as months of receiving would leave them. */
async function fill(databaseUrl: string, count: number): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const STEP = 100_000;
  for (let at = 0; at < count; at += STEP) {
    await client.query(
      `WITH event AS (
         SELECT md5(g::text) AS event_id, md5('c' || g)::uuid AS id, md5('o' || g)::uuid AS row_id,
                now() - (g % 2592000) * interval '1 s' AS at
           FROM generate_series($1::int, $2::int) g
       ), claim AS (
         INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body, received_at)
         SELECT 'bench', '', event_id, id, 'invoice.paid', 'delivery', 'x', 1, '{}', convert_to(repeat(event_id, 6), 'UTF8'), at FROM event)
       INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, state, settled_at, created_at, due_at, attempt)
       SELECT row_id, 'handler', 'bench/Handlers.handle', 'bench', '', event_id, 'done', at, at, at, 1 FROM event`,
      [at, Math.min(at + STEP, count) - 1],
    );
    console.log(`filled ${Math.min(at + STEP, count)} of ${count}`);
  }
  await client.query('VACUUM ANALYZE');
  await client.end();
}

async function pinned(server: Server, settings: Settings): Promise<Measured[]> {
  const { jobs } = settings;
  const programs: Program[] = [];
  const pins: Client[] = [];
  const contenders: Contender[] = [];
  const peers = [
    ['ours', 'programs/worker.ts'],
    ['graphile-worker', 'peers/graphile.ts'],
    ['pg-boss', 'peers/pg-boss.ts'],
  ] as const;
  try {
    for (const [name, file] of peers) {
      for (const held of [false, true]) {
        const databaseUrl = await server.database(`pin_${contenders.length}`);
        const program = await start(file, { databaseUrl, effects: 500 });
        programs.push(program);
        const one = worker(`drain, ${name}${held ? ', snapshot pinned' : ''}`, program, {
          work: 'effects',
          jobs,
        });
        const pin = async () => {
          if (!held) return;
          const client = new Client({ connectionString: databaseUrl });
          pins.push(client);
          await client.connect();
          await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM business_record');
        };
        contenders.push({
          ...one,
          warm: async () => {
            await one.warm!();
            await pin();
          },
        });
      }
    }
    return await inTurn(server, contenders, settings);
  } finally {
    await Promise.all(pins.map((client) => client.end()));
    await Promise.all(programs.map((program) => program.stop()));
  }
}
