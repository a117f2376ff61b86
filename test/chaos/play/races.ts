import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { Random } from '../../../examples/sender/random.js';
import { waitUntil } from '../support/sleep-until.js';
import { lookAt } from './coroner.js';
import { LEASE_MS, type Fleet } from './fleet.js';
import type { Provider } from './provider.js';
import type { ChaosReceiver } from './receiver.js';
import type { Version } from './rolling.js';

/** What the supervisor did, for the checker of races. */
export interface RacesReport {
  readonly kills: number;
  readonly freezes: number;
  readonly restarts: number;
  readonly replaysAsked: number;
  /** Calls of the raw sink's effect that were begun and not settled, at kills and freezes. */
  readonly begun: number;
  /** When the migration was applied, by the clock of the database, in milliseconds. */
  readonly migratedAt: number;
}

export interface Races {
  readonly fleet: Fleet;
  readonly provider: Provider;
  readonly client: Client;
  readonly seed: number;
  /** The build from before the migration, and the one from after it. */
  readonly before: Version;
  readonly after: Version;
  /** Applies the migration while receivers of the build from before it run. */
  readonly migrate: () => Promise<void>;
  readonly say: (line: string) => void;
}

const OPEN = 20;
const EVENT_EVERY_MS = 200;
const LEAST_DEEDS = 12;
type Deeds = 'kills' | 'freezes' | 'restarts';
/** One of these happens to one receiver after the other. */
const DEEDS = ['kill', 'freeze', 'restart', 'kill'] as const;
/** At least so many are up before the next one. */
const UP = 2;
const START_MS = 120_000;
const BETWEEN_DEEDS_MS = 1_000;
/** Longer than a lease: what the process does when it goes on comes late. */
const FROZEN_MS = LEASE_MS + 1_500;
const REPLAY_EVERY_MS = 200;
/** What an instance leaves that is killed in its pass of the reconciler, before the last build boots. */
const KILLED_IN_PASS = `
  INSERT INTO webhook_lease (name, owner, until)
  VALUES ('reconcile', gen_random_uuid(), clock_timestamp() + interval '1 min')
      ON CONFLICT (name) DO UPDATE SET owner = EXCLUDED.owner, until = EXCLUDED.until`;
/** Events that came just now are replayed: their runs, effects and settles are under way. */
const RECENT = 20;
const RECENT_EVENTS = `SELECT source, event_id AS "eventId" FROM webhook_claim WHERE source NOT IN ('routed', 'batched')
  ORDER BY received_at DESC LIMIT ${RECENT}`;

/**
 * Events flow while settles race against enqueues, handlers that an event did not have (rematch), replays, redeliveries and results
 * that come after their lease. In the middle an additive migration is applied; from then on two builds run side by side.
 */
export async function races(setup: Races): Promise<RacesReport> {
  const { fleet, provider, client, seed, before, after, migrate, say } = setup;
  const random = new Random(seed);
  const told = { kills: 0, freezes: 0, restarts: 0, replaysAsked: 0, begun: 0, migratedAt: 0 };
  const over = new AbortController();
  const actors = Promise.all([flow(provider, over, told), replaying(setup, random, over.signal, told)]);
  const third = Math.floor(provider.left / 3);
  const flowed = () => provider.sent >= third;
  for (let n = 0; !over.signal.aborted; n += 1) {
    if (told.migratedAt === 0 && flowed()) {
      await migrate();
      const { rows } = await client.query<{ at: number }>(
        `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at`,
      );
      told.migratedAt = rows[0]!.at;
      say('the migration is applied');
    }
    const receiver = fleet.up[n % fleet.up.length]!;
    const version = told.migratedAt === 0 || random.percent(50) ? before : after;
    await deed(DEEDS[n % DEEDS.length]!, receiver, version, client, told);
    await waitUntil(() => fleet.up.length >= UP, START_MS, 'the receivers did not come back');
    await sleep(BETWEEN_DEEDS_MS);
  }
  await actors;
  await provider.finished();
  await fleet.allUp();
  await client.query(KILLED_IN_PASS);
  // Only this build knows every handler.
  for (const receiver of fleet.receivers) await receiver.restart(after);
  await fleet.allUp();
  return told;
}

/** On a slow machine events wait for deeds: all of them flow beside some. */
async function flow(
  provider: Provider,
  over: AbortController,
  told: Pick<RacesReport, Deeds>,
): Promise<void> {
  const all = provider.left;
  while (provider.left > 0) {
    const share = (told.kills + told.freezes + told.restarts + 1) / LEAST_DEEDS;
    if (provider.open < OPEN && provider.sent < share * all) provider.release(provider.sent + 1);
    await sleep(EVENT_EVERY_MS);
  }
  over.abort();
}

async function replaying(
  { fleet, client }: Races,
  random: Random,
  over: AbortSignal,
  told: { replaysAsked: number },
): Promise<void> {
  while (!over.aborted) {
    await sleep(REPLAY_EVERY_MS);
    const { rows } = await client.query<{ source: string; eventId: string }>(RECENT_EVENTS);
    const { up } = fleet;
    if (rows.length === 0 || up.length === 0) continue;
    random.pick(up).replay([random.pick(rows)]);
    told.replaysAsked += 1;
  }
}

async function deed(
  kind: (typeof DEEDS)[number],
  receiver: ChaosReceiver,
  version: Version,
  client: Client,
  told: { kills: number; freezes: number; restarts: number; begun: number },
): Promise<void> {
  if (kind === 'restart') {
    told.restarts += 1;
    await receiver.restart(version);
    return;
  }
  const { owner, name } = receiver;
  receiver.freeze();
  told.begun += (await lookAt(client, { owner: owner!, name })).begun;
  if (kind === 'freeze') {
    told.freezes += 1;
    await sleep(FROZEN_MS);
    receiver.goOn();
    return;
  }
  told.kills += 1;
  receiver.become(version);
  await receiver.kill();
}
