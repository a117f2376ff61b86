import { CONNECTIONS } from './ingest.js';
import type { LoadOrder, LoadResult } from './programs/load.js';
import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';

/** From the signed request to the business record and the settled effect, all in one process. */
export async function endToEnd(server: Server, settings: Settings): Promise<Measured[]> {
  const { requests } = settings;
  const load = await start('programs/load.ts', {});
  const programs: Program[] = [load];
  const contender = async (name: string, file: string, database: string): Promise<Contender> => {
    const program = await start(file, { databaseUrl: await server.database(database) });
    programs.push(program);
    const round = async (nth: number, count = requests) => {
      const startedAt = performance.now();
      const order: LoadOrder = {
        ports: [program.ready.port as number],
        path: '/webhooks/bench',
        scheme: 'hmac',
        connections: CONNECTIONS,
        requests: count,
        prefix: `${nth}-`,
      };
      const { failed } = await load.run<LoadResult>(order);
      if (failed > 0) throw new Error(`${name}: ${failed} requests were not answered 2xx`);
      await program.run({ jobs: count });
      const seconds = (performance.now() - startedAt) / 1_000;
      return { seconds, count, values: { rate: count / seconds } };
    };
    return { name, programs: [program], warm: async () => void (await round(0, requests / 2)), round };
  };
  try {
    const contenders = [
      await contender('ours', 'programs/full.ts', 'full_ours'),
      await contender('the articles feeding graphile-worker', 'peers/articles-graphile.ts', 'full_graphile'),
    ];
    return await inTurn(server, contenders, settings, load);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}
