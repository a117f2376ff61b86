import { randomInt } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { Faults } from './check/verdict.js';
import type { Mode } from './modes.js';

const USAGE = `npm run chaos -- [--kills 300] [--events <20 for each kill>] [--seed <number>] [--adapter express|fastify]
                 [--stage 300] [--dir <folder>] [--json] [--record] [--pgbouncer] [--clocks]
npm run chaos -- --stops 20 | --promotions 4 [--asynchronous]
npm run chaos -- --storm [--seconds 1800] | --barrier [--rounds 100] | --rolling [--events 10000] | --races [--events 1000]
npm run chaos -- --attack [--seconds 20] [--record]
npm run chaos -- --engine bullmq|nats|rabbitmq [--events 1000] [--record]
npm run chaos -- --soak [--minutes 20] [--rate <events a second>] [--without retention|autovacuum] [--record]

Kills receivers at random and at named points while a provider sends events, and has an independent checker judge what is left.

  --kills    how many processes are killed
  --events   how many events are sent meanwhile, at least
  --seed     repeat the schedule of an earlier run
  --stage    kills in one stage; each has a database of its own
  --dir      where logs and verdicts go; a run with the same folder and seed goes on after its last finished stage
  --json     the verdict as JSON on stdout
  --record   write the figures into docs/reliability.md
  --pgbouncer  the receivers reach the database through pgbouncer in transaction mode (it must be installed)

  --clocks   the receivers' clocks are ten minutes ahead and behind, one jumps, and each is in a time zone of its own

Instead of kills, judged the same:
  --stops       how often a server of its own ends at once (pg_ctl -m immediate) and starts again
  --promotions  how often a primary ends at once, and its synchronous standby takes its place
  --asynchronous  neither disk nor standby is waited for: events that were acknowledged are lost, and the run must fail

Instead of faults:
  --storm    billing events repeated for half an hour while their handler is slow
  --barrier  50 copies of an event released at once over three processes, round after round
  --rolling  two versions of the application restarted in turn while events flow
  --races    settles race against enqueues, added handlers, replays, redeliveries and late results of frozen processes; in the
             middle an additive migration is applied, and builds from before and after it run side by side
  --engine   effects go to this engine: relays and consumers are killed, consumers are frozen, the broker is killed and started again,
             and the network to it is cut, while events flow; the server must be installed
  --attack   nested, slow, unfinished, oversized, compressed and flooding senders whom nobody believes beside valid deliveries, on
             both adapters: answers, rows, log lines and level memory
  --soak     events at one rate while retention deletes as many, a snapshot pinned for a tenth of the time: memory, tables,
             indexes, pages read by a lease and the time of an answer must not grow. --rate: without it, what the machine gives;
             --without: the run has to fail, and to say what grows

Environment: DATABASE_URL to use another server than the embedded one.`;

export interface ChaosOptions {
  readonly seed: number;
  readonly adapter: 'express' | 'fastify';
  /** What is done to them. */
  readonly faults: Exclude<Faults, 'retention'>;
  readonly asynchronous: boolean;
  /** So many kills, or outages. */
  readonly stages: readonly { readonly count: number; readonly events: number }[];
  readonly dir: string;
  readonly json: boolean;
  readonly record: boolean;
  readonly pgbouncer: boolean;
  /** Something else than faults. */
  readonly mode?: Mode;
  readonly engine?: (typeof ENGINES)[number];
  readonly seconds: number;
  readonly rounds: number;
  readonly minutes: number;
  readonly rate?: number;
  readonly without?: 'retention' | 'autovacuum';
}

const MODES: readonly Exclude<Mode, 'engine'>[] = ['storm', 'barrier', 'rolling', 'races', 'soak', 'attack'];
const EVENTS_PER_KILL = 20;
/** Each is followed by some seconds of load. */
const EVENTS_PER_OUTAGE = 60;
const STAGE_KILLS = 300;
const RACED_EVENTS = 1_000;
const ENGINE_EVENTS = 1_000;
const ENGINES = ['bullmq', 'nats', 'rabbitmq'] as const;

/** @throws TypeError naming the argument; ends the process after --help */
export function readOptions(args: string[]): ChaosOptions {
  const { values } = parseArgs({
    args,
    options: {
      kills: { type: 'string' },
      events: { type: 'string' },
      seed: { type: 'string' },
      adapter: { type: 'string' },
      stage: { type: 'string' },
      dir: { type: 'string' },
      json: { type: 'boolean' },
      record: { type: 'boolean' },
      pgbouncer: { type: 'boolean' },
      clocks: { type: 'boolean' },
      stops: { type: 'string' },
      promotions: { type: 'string' },
      asynchronous: { type: 'boolean' },
      storm: { type: 'boolean' },
      barrier: { type: 'boolean' },
      rolling: { type: 'boolean' },
      races: { type: 'boolean' },
      engine: { type: 'string' },
      seconds: { type: 'string' },
      rounds: { type: 'string' },
      soak: { type: 'boolean' },
      attack: { type: 'boolean' },
      minutes: { type: 'string' },
      rate: { type: 'string' },
      without: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const { adapter = 'express', without } = values;
  if (adapter !== 'express' && adapter !== 'fastify')
    throw new TypeError(`--adapter: expected express or fastify, received '${adapter}'`);
  if (without !== undefined && without !== 'retention' && without !== 'autovacuum')
    throw new TypeError(`--without: expected retention or autovacuum, received '${without}'`);
  const minutes = Number(values.minutes ?? '20');
  if (!(minutes > 0))
    throw new TypeError(`--minutes: expected a number above 0, received '${values.minutes}'`);
  const engine = ENGINES.find((one) => one === values.engine);
  if (values.engine !== undefined && engine === undefined)
    throw new TypeError(`--engine: expected ${ENGINES.join(', ')}, received '${values.engine}'`);
  const { stops, promotions } = values;
  if ([values.kills, stops, promotions].filter((one) => one !== undefined).length > 1)
    throw new TypeError('--kills, --stops and --promotions: one at a time');
  const outages = promotions ?? stops;
  const name = promotions === undefined ? (stops === undefined ? '--kills' : '--stops') : '--promotions';
  const times = count(name, outages ?? values.kills ?? String(STAGE_KILLS));
  const each = outages === undefined ? EVENTS_PER_KILL : EVENTS_PER_OUTAGE;
  const events = count(
    '--events',
    values.events ?? String(values.races ? RACED_EVENTS : values.engine ? ENGINE_EVENTS : times * each),
  );
  const seed = count('--seed', values.seed ?? String(randomInt(1, 1_000_000)));
  const stage = count('--stage', values.stage ?? String(STAGE_KILLS));
  return {
    seed,
    adapter,
    faults:
      name === '--kills' ? (values.clocks ? 'clocks' : 'kills') : name === '--stops' ? 'stops' : 'promotions',
    asynchronous: values.asynchronous ?? false,
    stages: stagesOf(times, events, outages === undefined ? stage : times),
    dir: values.dir ?? join(tmpdir(), `webhook-chaos-${seed}`),
    json: values.json ?? false,
    record: values.record ?? false,
    pgbouncer: values.pgbouncer ?? false,
    mode: engine === undefined ? MODES.find((mode) => values[mode] === true) : 'engine',
    engine,
    seconds: count('--seconds', values.seconds ?? (values.attack ? '20' : '1800')),
    rounds: count('--rounds', values.rounds ?? '100'),
    minutes,
    rate: values.rate === undefined ? undefined : count('--rate', values.rate),
    without,
  };
}

function stagesOf(times: number, events: number, stage: number): ChaosOptions['stages'] {
  const number = Math.max(1, Math.ceil(times / stage));
  const share = (of: number, n: number) =>
    Math.floor((of * (n + 1)) / number) - Math.floor((of * n) / number);
  return Array.from({ length: number }, (_, n) => ({ count: share(times, n), events: share(events, n) }));
}

function count(name: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1)
    throw new TypeError(`${name}: expected a whole number above 0, received '${text}'`);
  return value;
}
