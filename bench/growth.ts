import { worker } from './drain.js';
import { receiver } from './ingest.js';
import type { DrainResult } from './programs/worker.js';
import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';
import { fillSettled } from './support/settled.js';

/** What becomes of the rates when one thing grows: sources, handlers, the work that waits, and the work that is done. */
export async function growth(server: Server, settings: Settings): Promise<Measured[]> {
  return [
    ...(await sources(server, settings)),
    ...(await handlers(server, settings)),
    ...(await pending(server, settings)),
    ...(await settled(server, settings)),
  ];
}

const sizes = ({ quick }: Settings, all: readonly number[]) => (quick ? all.slice(0, 2) : all);
const text = (count: number) => count.toLocaleString('en');

async function sources(server: Server, settings: Settings): Promise<Measured[]> {
  const load = await start('programs/load.ts', {});
  const programs: Program[] = [load];
  const contenders: Contender[] = [];
  try {
    for (const count of sizes(settings, [1, 100, 10_000])) {
      const databaseUrl = await server.database(`sources_${count}`);
      const given = { kind: 'ours', adapter: 'fastify', sources: count, databaseUrl };
      const program = await start('programs/receiver.ts', given);
      programs.push(program);
      const sent = { path: '/webhooks/{source}', sources: count, scheme: 'hmac' } as const;
      contenders.push(
        receiver(`ingest, sources with a secrets function: ${text(count)}`, [program], load, sent, settings),
      );
    }
    return await inTurn(server, contenders, settings, load);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}

/** Each has its share of the rows. */
async function handlers(server: Server, settings: Settings): Promise<Measured[]> {
  const programs: Program[] = [];
  const contenders: Contender[] = [];
  try {
    for (const count of sizes(settings, [10, 100, 1_000])) {
      const databaseUrl = await server.database(`handlers_${count}`);
      const program = await start('programs/worker.ts', { databaseUrl, spread: count });
      programs.push(program);
      const order = { work: 'spread', jobs: Math.ceil(settings.jobs / 4) } as const;
      contenders.push(worker(`handlers: ${text(count)}`, program, order));
    }
    return await inTurn(server, contenders, settings);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}

/** So many effects wait at the end of each round as the name says, or more. */
async function pending(server: Server, settings: Settings): Promise<Measured[]> {
  const { jobs, rounds } = settings;
  const programs: Program[] = [];
  const contenders: Contender[] = [];
  try {
    for (const count of sizes(settings, [0, 1_000_000, 10_000_000])) {
      const databaseUrl = await server.database(`pending_${count}`);
      const program = await start('programs/worker.ts', { databaseUrl, effects: 500 });
      programs.push(program);
      contenders.push({
        name: `effects, pending beside them: ${text(count)}`,
        programs: [program],
        warm: async () => {
          await program.run<DrainResult>({ work: 'effects', jobs });
          await program.run({ work: 'fill', count: count + 2 * jobs * rounds });
        },
        round: async () => {
          const done = await program.run<DrainResult>({ work: 'next', count: jobs });
          return { seconds: done.seconds, count: done.jobs, values: { rate: done.jobs / done.seconds } };
        },
      });
    }
    return await inTurn(server, contenders, settings);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}

/** Settled events of the months before, with their handler rows. */
async function settled(server: Server, settings: Settings): Promise<Measured[]> {
  const load = await start('programs/load.ts', {});
  const programs: Program[] = [load];
  const drains: Contender[] = [];
  const ingests: Contender[] = [];
  const sent = { path: '/webhooks/bench', scheme: 'hmac' } as const;
  const order = { work: 'handlers', jobs: Math.ceil(settings.jobs / 4) } as const;
  try {
    for (const count of [0, 10 * settings.claims]) {
      const databaseUrl = await server.database(`settled_${count}`);
      if (count > 0) await fillSettled(databaseUrl, count);
      const works = await start('programs/worker.ts', { databaseUrl });
      const receives = await start('programs/receiver.ts', { kind: 'ours', adapter: 'fastify', databaseUrl });
      programs.push(works, receives);
      drains.push(worker(`handlers, settled before: ${text(count)}`, works, order));
      ingests.push(receiver(`ingest, settled before: ${text(count)}`, [receives], load, sent, settings));
    }
    // One after the other: what the second leaves, the first would wait for.
    return [...(await inTurn(server, drains, settings)), ...(await inTurn(server, ingests, settings, load))];
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}
