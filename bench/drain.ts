import type { DrainOrder, DrainResult, WorkerSettings } from './programs/worker.js';
import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';

/** One that works off jobs that are there. */
export function worker(name: string, program: Program, order: DrainOrder): Contender {
  return {
    name,
    programs: [program],
    warm: async () => void (await program.run<DrainResult>({ ...order, jobs: Math.ceil(order.jobs / 2) })),
    round: async () => {
      const { seconds, jobs } = await program.run<DrainResult>(order);
      return { seconds, count: jobs + (order.waiting ?? 0), values: { rate: jobs / seconds } };
    },
  };
}

/** Jobs that wait, worked off by one process: effects that do nothing, and handlers with one business write. */
export async function drain(server: Server, settings: Settings): Promise<Measured[]> {
  const { jobs } = settings;
  const programs: Program[] = [];
  const add = async (file: string, name: string, more: Partial<WorkerSettings> = {}) => {
    const program = await start(file, { databaseUrl: await server.database(name), effects: 500, ...more });
    programs.push(program);
    return program;
  };
  // A database for each: nobody works beside what another has left behind.
  const ours = await add('programs/worker.ts', 'drain_ours');
  const single = await add('programs/worker.ts', 'drain_single');
  const batched = await add('programs/worker.ts', 'drain_batched');
  const articles = await add('programs/worker.ts', 'drain_articles');
  const large = await add('programs/worker.ts', 'drain_large', { others: 200 });
  const crowded = await add('programs/worker.ts', 'drain_crowded', { others: 200, othersInBatches: true });
  const least = await add('programs/worker.ts', 'drain_least');
  const behindLease = await add('programs/worker.ts', 'drain_behind_lease');
  const graphile = await add('peers/graphile.ts', 'drain_graphile');
  const graphileHandlers = await add('peers/graphile.ts', 'drain_graphile_handlers');
  const boss = await add('peers/pg-boss.ts', 'drain_boss');
  const few = Math.ceil(jobs / 4);
  try {
    return await inTurn(
      server,
      [
        worker('effects, ours', ours, { work: 'effects', jobs }),
        worker('effects, graphile-worker', graphile, { work: 'effects', jobs }),
        worker('effects, pg-boss', boss, { work: 'effects', jobs }),
        worker('handlers, ours', single, { work: 'handlers', jobs: few }),
        worker('handlers, ours beside 200 others', large, { work: 'handlers', jobs: few }),
        worker('handlers, graphile-worker', graphileHandlers, { work: 'handlers', jobs: few }),
        worker("handlers, the articles' loop", articles, { work: 'articles', jobs: few }),
        worker('handlers, two messages and no more', least, { work: 'messages', jobs: few }),
        worker('handlers, two messages behind a lease', behindLease, { work: 'leased', jobs: few }),
        worker('handlers, ours in batches of 100', batched, { work: 'batches', jobs }),
        worker('batches, ours beside 200 others', crowded, { work: 'batches', jobs: few }),
      ],
      settings,
    );
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}
