import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Client } from 'pg';
import type { Verdict } from './check/verdict.js';
import { coursesOf, type Course } from './check/plateau.js';
import type { ChaosOptions } from './options.js';
import { playAttack } from './attack.mode.js';
import { playEngine } from './engine.mode.js';
import { barrier } from './play/barrier.js';
import { unsettled } from './play/coroner.js';
import { Fleet } from './play/fleet.js';
import { Log, LOGS, type Sent, type SinkCall } from './play/log.js';
import { planOf } from './play/plan.js';
import { Provider } from './play/provider.js';
import { rolling } from './play/rolling.js';
import { playRaces } from './races.mode.js';
import { ChaosSink } from './play/sink.js';
import { ENOUGH, keptMs, soak } from './play/soak.js';
import { storm } from './play/storm.js';
import { sleepUntil } from './support/sleep-until.js';

export type Mode = 'storm' | 'barrier' | 'rolling' | 'races' | 'soak' | 'attack' | 'engine';

const STORM_EVENTS = 500;
const DRAIN_MS = 300_000;
const P99_MS = 250;

/** Figures of a run that kills nobody, and what was wrong with them. */
export interface ModeReport {
  readonly mode: Mode;
  readonly figures: unknown;
  readonly faults: readonly string[];
  /** Of a soak: what became of each figure. */
  readonly courses?: readonly Course[];
}

/** What a mode is played with. */
export interface Ground {
  readonly databaseUrl: string;
  /** The compiled receiver. */
  readonly program: string;
  /** Compiles another program. */
  readonly compile: (source: string) => Promise<string>;
  readonly say: (line: string) => void;
  /** The independent checker, on the logs of this run. */
  readonly judge: () => Promise<Verdict>;
}

/** Runs one of the other programmes on a fleet of its own. */
export async function playMode(mode: Mode, options: ChaosOptions, ground: Ground): Promise<ModeReport> {
  const { dir, adapter, seconds, rounds, stages, seed } = options;
  const { databaseUrl, program } = ground;
  await mkdir(dir, { recursive: true });
  if (mode === 'soak') return playSoak(options, ground);
  if (mode === 'attack') return playAttack(options, ground);
  if (mode === 'races') return playRaces(options, ground);
  if (mode === 'engine') return playEngine(options, ground);
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const sink = await ChaosSink.start({ write: () => undefined }, 100);
  const fleet = await Fleet.start({ databaseUrl, adapter, dir, program, sinkUrl: sink.url });
  try {
    if (mode === 'barrier') return await playBarrier(fleet, rounds);
    if (mode === 'storm') return await playStorm(fleet, client, seconds * 1_000);
    const events = stages.reduce((sum, stage) => sum + stage.events, 0);
    return await playRolling(fleet, client, program, seed, events);
  } finally {
    await fleet.stop();
    sink.stop();
    await client.end();
  }
}

async function playBarrier(fleet: Fleet, rounds: number): Promise<ModeReport> {
  const figures = await barrier(
    fleet.receivers.map(({ origin }) => origin),
    rounds,
  );
  const faults = [
    ...(figures.wrongRounds > 0 ? [`rounds with other than one winner: ${figures.wrongRounds}`] : []),
    ...(figures.unrelatedP99Ms > P99_MS ? [`unrelated events: p99 of ${figures.unrelatedP99Ms} ms`] : []),
  ];
  return { mode: 'barrier', figures, faults };
}

async function playStorm(fleet: Fleet, client: Client, ms: number): Promise<ModeReport> {
  const figures = await storm({
    origin: () => fleet.next().origin,
    client,
    ms,
    events: STORM_EVENTS,
    drainMs: DRAIN_MS,
  });
  const faults = [
    ...(figures.wrongTotals > 0 ? [`invoices with a wrong total: ${figures.wrongTotals}`] : []),
    ...(figures.pendingAfter > 0 ? [`rows still pending: ${figures.pendingAfter}`] : []),
    ...(figures.claims === STORM_EVENTS ? [] : [`claims: ${figures.claims} for ${STORM_EVENTS} events`]),
  ];
  return { mode: 'storm', figures, faults };
}

async function playRolling(
  fleet: Fleet,
  client: Client,
  program: string,
  seed: number,
  count: number,
): Promise<ModeReport> {
  const acknowledged = new Set<string>();
  const log = { write: ({ status, id }: Sent) => void (status === 200 && acknowledged.add(id)) };
  const { events } = planOf(seed, 0, count);
  const provider = new Provider(events, () => fleet.next(), log);
  const versions = ['1', '0'].map((before) => ({ program, env: { BEFORE: before } }));
  const { exits, longestStopMs } = await rolling(fleet, provider, versions);
  await sleepUntil(async () => (await unsettled(client)) === 0, DRAIN_MS);
  const { rows } = await client.query<{ applied: number; doubled: number }>(
    `SELECT count(*)::int AS applied, count(*) FILTER (WHERE applied_count > 1)::int AS doubled FROM chaos_record`,
  );
  const { applied, doubled } = rows[0]!;
  const lost = acknowledged.size - applied;
  const faults = [
    ...(acknowledged.size === count ? [] : [`acknowledged: ${acknowledged.size} of ${count}`]),
    ...(lost > 0 ? [`lost: ${lost}`] : []),
    ...(doubled > 0 ? [`handled twice: ${doubled}`] : []),
    ...(exits.some((code) => code !== 0)
      ? [`ends other than in peace: ${exits.filter((code) => code !== 0).length}`]
      : []),
  ];
  return {
    mode: 'rolling',
    figures: { events: count, restarts: exits.length, longestStopMs, lost, doubled },
    faults,
  };
}

/** Of some fifty tables and indexes most have nothing in them here. */
const SEEN_BYTES = 65_536;
const isSeen = ({ unit, grows, last = 0 }: Course) => grows || unit !== 'bytes' || last > SEEN_BYTES;

const SOAKED = 2;
/** Figures of the checker that a run without kills has. */
const JUDGED = ['deliveries', 'acknowledged', 'idempotentCalls', 'idempotentApplies', 'lost', 'doubled'];
/** Of the events, so many claims may be there at the end: with more, retention has deleted nothing to speak of. */
const KEPT_SHARE = 0.5;

async function playSoak(
  { dir, adapter, minutes, rate, seed, without }: ChaosOptions,
  { databaseUrl, program, say, judge }: Ground,
): Promise<ModeReport> {
  const ms = minutes * 60_000;
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const sinkLog = new Log<SinkCall>(join(dir, LOGS.sink));
  const log = new Log<Sent>(join(dir, LOGS.provider));
  const sink = await ChaosSink.start(sinkLog, 100);
  const env = {
    KEPT_MS: String(keptMs(ms)),
    ...(without === 'retention' ? undefined : { RETENTION_SCHEDULE: '*/2 * * * * *' }),
  };
  const fleet = await Fleet.start({
    databaseUrl,
    adapter,
    dir,
    program,
    sinkUrl: sink.url,
    size: SOAKED,
    env: () => env,
  });
  try {
    const run = await soak({ seed, ms, databaseUrl, client, fleet, log, rate, say });
    await fleet.stop();
    await Promise.all([sinkLog.close(), log.close()]);
    const courses = coursesOf(run.samples);
    const verdict = await judge();
    const { samples: _samples, ...figures } = run;
    const judged = Object.fromEntries(JUDGED.map((name) => [name, verdict.figures[name] ?? 0]));
    const dead = courses.find(({ name }) => name === 'dead tuples');
    const faults = [
      ...verdict.faults,
      ...(run.events < ENOUGH ? [] : courses.filter(({ grows }) => grows)).map(
        ({ name }) => `grows: ${name}`,
      ),
      ...(run.events < ENOUGH ? [`the run shows nothing: ${run.events} events`] : []),
      ...(run.claims > run.events * KEPT_SHARE
        ? [`the run shows nothing: ${run.claims} of ${run.events} claims are there at the end`]
        : []),
      ...((dead?.pinned ?? 0) > (dead?.before ?? 0)
        ? []
        : ['the run shows nothing: the pinned snapshot held nothing back']),
    ];
    return { mode: 'soak', figures: { ...figures, ...judged }, faults, courses: courses.filter(isSeen) };
  } finally {
    await fleet.stop();
    sink.stop();
    await client.end();
  }
}
