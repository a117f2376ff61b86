import type { LoadOrder, LoadResult } from './programs/load.js';
import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured, type Round } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';
import type { Scheme } from './support/signed.js';

export const CONNECTIONS = 64;

/** A receiver under load. */
export function receiver(
  name: string,
  program: Program,
  load: Program,
  order: { readonly path: string; readonly scheme: Scheme; readonly ms: number; readonly prefix?: () => string },
): Contender {
  const run = async (ms: number, prefix: string): Promise<Round> => {
    const port = program.ready.port as number;
    const result = await load.run<LoadResult>({
      ...{ port, path: order.path, scheme: order.scheme, connections: CONNECTIONS },
      ms,
      prefix,
    } satisfies LoadOrder);
    if (result.failed > 0) throw new Error(`${name}: ${result.failed} requests were not answered 2xx`);
    const { seconds, p50, p99 } = result;
    return { seconds, values: { rate: result.answered / seconds, p50, p99 } };
  };
  return {
    name,
    program,
    round: async (nth) => {
      // Warm: compiled code and open connections are everybody's.
      if (nth === 1) await run(order.ms / 2, `${name.replaceAll(/\W/g, '')}-warm-`);
      return run(order.ms, `${name.replaceAll(/\W/g, '')}-${nth}-`);
    },
  };
}

/** What a durable acknowledgement costs: requests a second, each verified, claimed and committed before its answer. */
export async function ingest(server: Server, settings: Settings): Promise<Measured[]> {
  const load = await start('programs/load.ts', {});
  const programs: Program[] = [load];
  const contenders: Contender[] = [];
  const add = async (name: string, file: string, given: object, path: string, scheme: Scheme) => {
    const databaseUrl = await server.database(`ingest_${contenders.length}`);
    const program = await start(file, { databaseUrl, ...given });
    programs.push(program);
    contenders.push(receiver(name, program, load, { path, scheme, ms: settings.loadMs }));
  };
  for (const adapter of ['express', 'fastify'] as const) {
    for (const kind of ['bare', 'articles', 'ours'] as const) {
      await add(`${kind}, ${adapter}`, 'programs/receiver.ts', { kind, adapter }, '/webhooks/bench', 'hmac');
    }
  }
  const single = { kind: 'ours', adapter: 'fastify', groupCommit: false };
  await add('ours without group commit, fastify', 'programs/receiver.ts', single, '/webhooks/bench', 'hmac');
  await add('golevelup, express', 'peers/golevelup.ts', {}, '/stripe/webhook', 'stripe');
  const stripe = { kind: 'ours', adapter: 'express' };
  await add('ours with stripe, express', 'programs/receiver.ts', stripe, '/webhooks/stripe', 'stripe');
  try {
    return await inTurn(server, contenders, settings.rounds, load);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}
