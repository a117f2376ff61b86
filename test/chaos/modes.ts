import { mkdir } from 'node:fs/promises';
import { Client } from 'pg';
import type { ChaosOptions } from './options.js';
import { barrier } from './play/barrier.js';
import { unsettled } from './play/coroner.js';
import { Fleet } from './play/fleet.js';
import type { Sent } from './play/log.js';
import { planOf } from './play/plan.js';
import { Provider } from './play/provider.js';
import { rolling } from './play/rolling.js';
import { ChaosSink } from './play/sink.js';
import { storm } from './play/storm.js';
import { sleepUntil } from './support/sleep-until.js';

export type Mode = 'storm' | 'barrier' | 'rolling';

const STORM_EVENTS = 500;
const DRAIN_MS = 300_000;
const P99_MS = 250;

/** Figures of a run that kills nobody, and what was wrong with them. */
export interface ModeReport {
  readonly mode: Mode;
  readonly figures: unknown;
  readonly faults: readonly string[];
}

/** Runs one of the other programmes on a fleet of its own. */
export async function playMode(
  mode: Mode,
  { dir, adapter, seconds, rounds, stages, seed }: ChaosOptions,
  databaseUrl: string,
  program: string,
): Promise<ModeReport> {
  await mkdir(dir, { recursive: true });
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
