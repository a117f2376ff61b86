import type { LoadOrder, LoadResult } from './programs/load.js';
import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured, type Round } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';
import type { Scheme } from './support/signed.js';

export const CONNECTIONS = 64;

/** What is sent, and where to. */
export interface Sent extends Pick<LoadOrder, 'random' | 'sources'> {
  readonly path: string;
  readonly scheme: Scheme;
}

/** Receivers of one database under load. */
export function receiver(
  name: string,
  programs: readonly Program[],
  load: Program,
  sent: Sent,
  { loadMs, warmRequests }: Settings,
): Contender {
  const run = async (bound: Pick<LoadOrder, 'ms' | 'requests'>, prefix: string): Promise<Round> => {
    const ports = programs.map(({ ready }) => ready.port as number);
    const order: LoadOrder = { ports, connections: CONNECTIONS, prefix, ...sent, ...bound };
    const { answered, failed, seconds, p50, p99 } = await load.run<LoadResult>(order);
    if (failed > 0) throw new Error(`${name}: ${failed} requests were not answered 2xx`);
    return { seconds, count: answered, values: { rate: answered / seconds, p50, p99 } };
  };
  const prefix = name.replaceAll(/\W/g, '');
  let warmed = 0;
  return {
    name,
    programs,
    warm: async () => void (await run({ requests: warmRequests, ms: 4 * loadMs }, `${prefix}-warm-`)),
    rewarm: async () => {
      warmed += 1;
      await run({ ms: loadMs / 4 }, `${prefix}-rewarm-${warmed}-`);
    },
    round: (nth) => run({ ms: loadMs }, `${prefix}-${nth}-`),
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
    contenders.push(receiver(name, [program], load, { path, scheme }, settings));
  };
  for (const adapter of ['express', 'fastify'] as const) {
    for (const kind of ['bare', 'articles', 'ours'] as const) {
      await add(`${kind}, ${adapter}`, 'programs/receiver.ts', { kind, adapter }, '/webhooks/bench', 'hmac');
    }
  }
  await add('written by hand', 'peers/by-hand.ts', {}, '/webhooks/bench', 'hmac');
  for (const adapter of ['express', 'fastify'] as const) {
    const piped = { kind: 'ours', adapter, direct: false };
    await add(
      `ours through the pipeline, ${adapter}`,
      'programs/receiver.ts',
      piped,
      '/webhooks/bench',
      'hmac',
    );
  }
  const single = { kind: 'ours', adapter: 'fastify', groupCommit: false };
  await add('ours without group commit, fastify', 'programs/receiver.ts', single, '/webhooks/bench', 'hmac');
  const typeorm = { kind: 'ours', adapter: 'fastify', claims: 'typeorm' };
  await add(
    "ours in TypeORM's transactions, fastify",
    'programs/receiver.ts',
    typeorm,
    '/webhooks/bench',
    'hmac',
  );
  await add('golevelup, express', 'peers/golevelup.ts', {}, '/stripe/webhook', 'stripe');
  const stripe = { kind: 'ours', adapter: 'express' };
  await add('ours with stripe, express', 'programs/receiver.ts', stripe, '/webhooks/stripe', 'stripe');
  try {
    return await inTurn(server, contenders, settings, load);
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}
