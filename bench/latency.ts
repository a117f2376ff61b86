import { start, type Program } from './support/program.js';
import { inTurn, type Contender, type Measured } from './support/rounds.js';
import type { Server } from './support/server.js';
import type { Settings } from './support/settings.js';
import { percentile } from './support/statistics.js';

type Times = readonly (readonly [string, number])[];

/** From the acknowledged commit to the start of the work, one event at a time, with rests. */
export async function latency(server: Server, settings: Settings): Promise<Measured[]> {
  const { samples } = settings;
  const programs: Program[] = [];
  const add = async (file: string, settings: object) => {
    const program = await start(file, settings);
    programs.push(program);
    return program;
  };
  const timed = (name: string, sender: Program, runner: Program): Contender => {
    const round = async (nth: number) => {
      const order = { samples, prefix: `${nth}-` };
      const startedAt = performance.now();
      const sent = await sender.run<Times>({ ...order, work: 'send' });
      const began = new Map(await runner.run<Times>({ ...order, work: 'starts' }));
      const took = sent.map(([id, at]) => began.get(id)! - at);
      return {
        seconds: (performance.now() - startedAt) / 1_000,
        count: samples,
        values: { p50: percentile(took, 0.5), p99: percentile(took, 0.99) },
      };
    };
    const all = sender === runner ? [sender] : [sender, runner];
    return { name, programs: all, warm: async () => void (await round(0)), round };
  };
  const own = await add('programs/worker.ts', { databaseUrl: await server.database('latency_own') });
  const databaseUrl = await server.database('latency_other');
  const sender = await add('programs/worker.ts', { databaseUrl, relay: false });
  const runner = await add('programs/worker.ts', { databaseUrl });
  const peerUrl = await server.database('latency_graphile');
  const peerSender = await add('peers/graphile.ts', { databaseUrl: peerUrl, relay: false });
  const peerRunner = await add('peers/graphile.ts', { databaseUrl: peerUrl });
  try {
    return await inTurn(
      server,
      [
        timed('ours, same instance', own, own),
        timed('ours, other instance', sender, runner),
        timed('graphile-worker, other instance', peerSender, peerRunner),
      ],
      settings,
    );
  } finally {
    await Promise.all(programs.map((program) => program.stop()));
  }
}
