import { Client } from 'pg';
import { worker } from './drain.js';
import { receiver } from './ingest.js';
import type { DrainOrder, DrainResult } from './programs/worker.js';
import { fillSettled } from './support/settled.js';
import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';

const SENT = { path: '/webhooks/bench', scheme: 'hmac' } as const;
const RECEIVER = { kind: 'ours', adapter: 'fastify' };

/** A full table, several processes, and what a pinned snapshot keeps from being cleaned. */
export async function scale(server: Server, settings: Settings): Promise<Measured[]> {
  const measured = [...(await claims(server, settings)), ...(await pinned(server, settings))];
  // These take minutes.
  if (settings.quick) return measured;
  return [...measured, ...(await processes(server, settings))];
}

async function claims(server: Server, settings: Settings): Promise<Measured[]> {
  const load = await start('programs/load.ts', {});
  const programs: Program[] = [load];
  const contenders: Contender[] = [];
  try {
    for (const count of [0, settings.claims]) {
      const databaseUrl = await server.database(`scale_${count}`);
      if (count > 0) await fillSettled(databaseUrl, count);
      const program = await start('programs/receiver.ts', { ...RECEIVER, databaseUrl });
      programs.push(program);
      const name = count === 0 ? 'ingest, empty' : `ingest, full`;
      contenders.push(
        receiver(name, [program], load, SENT, settings),
        receiver(`${name}, random ids`, [program], load, { ...SENT, random: true }, settings),
      );
    }
    return await inTurn(server, contenders, settings, load);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}

/** Several on one database: what they share is the database, and here the cores too. */
async function processes(server: Server, settings: Settings): Promise<Measured[]> {
  const load = await start('programs/load.ts', {});
  const programs: Program[] = [load];
  const contenders: Contender[] = [];
  const several = (count: number, file: string, given: object) =>
    Promise.all(Array.from({ length: count }, () => start(file, given)));
  try {
    for (const count of [1, 2, 4]) {
      const databaseUrl = await server.database(`processes_${count}`);
      const receivers = await several(count, 'programs/receiver.ts', { ...RECEIVER, databaseUrl });
      programs.push(...receivers);
      contenders.push(receiver(`ingest, processes: ${count}`, receivers, load, SENT, settings));
    }
    for (const count of [1, 2, 4]) {
      const databaseUrl = await server.database(`relays_${count}`);
      const workers = await several(count, 'programs/worker.ts', { databaseUrl, effects: 500 });
      programs.push(...workers);
      const order: DrainOrder = { work: 'effects', jobs: settings.jobs };
      contenders.push(together(`drain, processes: ${count}`, workers, order));
    }
    return await inTurn(server, contenders, settings, load);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}

/** One fills, and all work it off. */
function together(name: string, programs: readonly Program[], order: DrainOrder): Contender {
  const run = async (jobs: number) => {
    const results = await Promise.all(
      programs.map((program, nth) => program.run<DrainResult>({ ...order, jobs, fills: nth === 0 })),
    );
    const began = Math.min(...results.map(({ beganAt }) => beganAt));
    const ended = Math.max(...results.map(({ endedAt }) => endedAt));
    return { seconds: (ended - began) / 1_000, count: jobs };
  };
  return {
    name,
    programs,
    warm: async () => void (await run(Math.ceil(order.jobs / 2))),
    round: async () => {
      const { seconds, count } = await run(order.jobs);
      return { seconds, count, values: { rate: count / seconds } };
    },
  };
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
