// What an effect costs through an engine: node --import @swc-node/register/esm-register bench/engines.ts [jobs] [--record]
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { writeFigures } from '../scripts/figures.js';
import { startNats, startRabbitmq, startRedis, type Engine } from '../test/support/engines.js';
import type { EngineName } from './programs/engine.js';
import { countCpu, secondsOfGroup } from './support/cpu.js';
import { start, type Program } from './support/program.js';
import { machine } from './support/report.js';
import { startServer } from './support/server.js';
import { figure } from './support/statistics.js';

const ROUNDS = 3;
const STARTERS = { bullmq: startRedis, nats: startNats, rabbitmq: startRabbitmq } as const;
const TITLES = { bullmq: 'BullMQ', nats: 'NATS JetStream', rabbitmq: 'RabbitMQ' } as const;

interface Contender {
  readonly name: string;
  readonly relay: Program;
  readonly consumer?: Program;
  readonly engine?: Engine;
}
/** Microseconds of CPU for one effect, and effects a second. */
interface Taken {
  readonly rate: number;
  readonly relay: number;
  readonly consumer: number;
  readonly postgres: number;
  readonly broker: number;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { record: { type: 'boolean', default: false } },
});
const jobs = Number(positionals[0] ?? '10000');
const loadBefore = loadavg()[0]!;
const server = await startServer();
const engines: Engine[] = [];
const programs: Program[] = [];
const run = async (settings: object) => {
  const program = await start('programs/engine.ts', settings);
  programs.push(program);
  return program;
};

/** A database for each, and one more for its consumer. */
async function contenders(): Promise<Contender[]> {
  const local = { role: 'relay', databaseUrl: await server.database('engine_local') };
  const all: Contender[] = [{ name: 'the relay', relay: await run(local) }];
  for (const engineName of Object.keys(STARTERS) as EngineName[]) {
    for (const isKept of [true, false]) {
      const engine = await STARTERS[engineName]();
      engines.push(engine);
      const common = { engine: { name: engineName, url: engine.url } };
      const name = `${engineName}_${isKept ? 'kept' : 'bare'}`;
      const databaseUrl = isKept ? await server.database(`consumer_${name}`) : undefined;
      all.push({
        name: `${TITLES[engineName]}, consumer ${isKept ? 'with' : 'without'} a DataSource`,
        relay: await run({ ...common, role: 'relay', databaseUrl: await server.database(`relay_${name}`) }),
        consumer: await run({ ...common, role: 'consumer', databaseUrl }),
        engine,
      });
    }
  }
  return all;
}

async function round({ relay, consumer, engine }: Contender, count: number): Promise<Taken> {
  await server.quiet();
  const used = countCpu({ node: [relay.pid], postmaster: server.postmaster, load: consumer?.pid });
  const broker = () => (engine === undefined ? 0 : secondsOfGroup(engine.pid));
  const before = broker();
  const seconds = await relay.run<number>({ jobs: count });
  const { node, load, postgres } = used();
  const micros = (cpu: number) => (cpu / count) * 1e6;
  return {
    rate: count / seconds,
    relay: micros(node),
    consumer: micros(load),
    postgres: micros(postgres),
    broker: micros(broker() - before),
  };
}

try {
  const all = await contenders();
  const taken = new Map(all.map((one): [Contender, Taken[]] => [one, []]));
  for (const one of all) await round(one, Math.ceil(jobs / 2));
  for (let nth = 0; nth < ROUNDS; nth += 1) {
    for (const one of all) {
      const result = await round(one, jobs);
      taken.get(one)!.push(result);
      console.log(
        one.name,
        Object.entries(result)
          .map(([name, value]) => `${name} ${Math.round(value)}`)
          .join(', '),
      );
    }
  }
  if (values.record) await record(all, taken);
} finally {
  await Promise.all(programs.map((program) => program.stop()));
  await Promise.all(engines.map((engine) => engine.stop()));
  await server.stop();
}
process.exit(0);

async function record(
  all: readonly Contender[],
  taken: ReadonlyMap<Contender, readonly Taken[]>,
): Promise<void> {
  const cell = (one: Contender, name: keyof Taken) => {
    const { median, lowest, highest } = figure(taken.get(one)!.map((each) => each[name]));
    const [middle, least, most] = [median, lowest, highest].map((value) =>
      Math.round(value).toLocaleString('en'),
    );
    return most === '0' ? '' : `${middle} (${least} to ${most})`;
  };
  const names = ['rate', 'relay', 'consumer', 'postgres', 'broker'] as const;
  await writeFigures('docs/scaling.md', 'engine-cost', [
    `Run of ${new Date().toISOString().slice(0, 10)} on ${machine()}, PostgreSQL ${server.version}, Node ${process.version}: ` +
      `${ROUNDS} rounds of ${jobs.toLocaleString('en')} effects in turn, load average before: ${loadBefore.toFixed(1)}. Medians, with the lowest and the highest round.`,
    '',
    '| effects run by | effects a second | relay, µs | consumer, µs | PostgreSQL, µs | engine, µs |',
    '| --- | ---: | ---: | ---: | ---: | ---: |',
    ...all.map((one) => `| ${one.name} | ${names.map((name) => cell(one, name)).join(' | ')} |`),
  ]);
}
