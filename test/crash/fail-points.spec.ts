import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { PausedNames } from '../../src/outbox/relay/paused-names.js';
import type { SinkCall } from '../chaos/play/log.js';
import { ChaosSink, isRefused, isSlow } from '../chaos/play/sink.js';
import { ChaosEffects, ChaosHandlers, ChaosRoute, OwnHandler } from '../chaos/receiver/handlers.js';
import { chaosSources, type ChaosSource } from '../chaos/receiver/sources.js';
import { CHAOS_TABLES } from '../chaos/receiver/tables.js';
import { until } from '../support/application.js';
import { FAULTS, installFailPoints, POINTS, removeFailPoints, type Fault } from '../support/fail-points.js';
import { Receiver } from '../support/receiver.js';
import { awardee } from '../support/signing.js';

const LEASE_MS = 800;
const STALL_MS = 1_000;
const PATIENCE_MS = 60_000;
const ROUNDS = 20;

/** Which source's events pass a point, where it is not `own`. */
const SOURCE_OF: Readonly<Record<string, ChaosSource>> = {
  'lease of a redelivery': 'patient',
  'begin of an effect': 'charged',
  'result of an effect': 'completed',
  'commit of a completion': 'completed',
  'settle of a handler': 'completed',
  'commit of an inline claim': 'inline',
  'settle of a batch': 'batched',
};
let receiver: Receiver;
let sink: ChaosSink;
const calls: SinkCall[] = [];

beforeAll(async () => {
  sink = await ChaosSink.start({ write: (call) => void calls.push(call) }, LEASE_MS / 2);
  process.env.SINK_URL = sink.url;
  receiver = await Receiver.start({
    relayRuns: true,
    webhooks: {
      sources: chaosSources(),
      relay: { lease: LEASE_MS, pollInterval: 100 },
      reconcile: false,
      retention: false,
    },
    providers: [OwnHandler, ChaosHandlers, ChaosEffects],
    controllers: [ChaosRoute],
  });
  await receiver.query(CHAOS_TABLES);
});
afterEach(removeFailPoints);
afterAll(async () => {
  sink?.stop();
  await receiver?.stop();
});

/** Sends an event as its provider does, until it is acknowledged, and then once more. */
async function deliver(source: ChaosSource, id: string): Promise<void> {
  for (let redelivery = 0; redelivery < 2; redelivery += 1) {
    await until(async () => {
      const { status } = await receiver.send({
        path: `/webhooks/${source}`,
        ...awardee(id, 'happened', { id, resource: 'one' }),
      });
      if (status !== 200) await sleep(50);
      return status === 200;
    }, PATIENCE_MS);
  }
}

/** An id that the point needs: failures come of events that the sink refuses, renewals of those that it is slow with. */
function idFor(point: string): string {
  for (;;) {
    const id = randomUUID();
    const wanted = point === 'failure' ? isRefused(id) : point === 'renewal' ? isSlow(id) : !isRefused(id);
    if (wanted) return id;
  }
}

describe.each(POINTS)('%s', (point) => {
  it.each(['before', 'after'] as const)(
    `fails in every way %s it: each event is handled once, and its effect is done under one key`,
    async (when) => {
      const armed: Fault[] = [...FAULTS];
      installFailPoints((at, then) => {
        if (point === 'release' && at === 'claim' && then === 'before') readPausesAgain();
        return at === point && then === when ? armed.shift() : undefined;
      }, STALL_MS);
      const source = SOURCE_OF[point] ?? 'own';
      const ids: string[] = [];
      for (let round = 0; armed.length > 0; round += 1) {
        if (round === ROUNDS) throw new Error(`never passed: ${armed.join(', ')} is left`);
        const fresh = FAULTS.map(() => idFor(point));
        ids.push(...fresh);
        if (point === 'release') await pauseElsewhere(source);
        await Promise.all(fresh.map((id) => deliver(source, id)));
        if (point === 'release') await resumeElsewhere(source);
        // What is passed only after the answer.
        await until(async () => armed.length === 0 || (await pending()) === 0, PATIENCE_MS);
      }
      await until(async () => (await pending()) === 0, PATIENCE_MS);
      expect(await told(ids)).toEqual(new Map(ids.map((id) => [id, 'record 1, rows 2, done 2'])));
      for (const id of ids) expect(new Set(keysOf(id)).size).toBe(1);
    },
    2 * PATIENCE_MS,
  );
});

const pausedNames = () => receiver.app.get<unknown>(PausedNames) as { readAt: number };

/**
 * Another instance pauses the source, and this one goes by what it has read before, until it claims: a row that is handed off, and
 * whose pause is read after its commit, is given back.
 */
async function pauseElsewhere(source: string): Promise<void> {
  pausedNames().readAt = performance.now() + 60_000;
  await receiver.query(
    `INSERT INTO webhook_pause (kind, name, paused_by, reason) VALUES ('source', $1, 'ann', 'to see')`,
    [source],
  );
}

function readPausesAgain(): void {
  pausedNames().readAt = performance.now() - 60_000;
}

async function resumeElsewhere(source: string): Promise<void> {
  await receiver.query(`DELETE FROM webhook_pause WHERE name = $1`, [source]);
  readPausesAgain();
}

async function pending(): Promise<number> {
  const rows = await receiver.query(`SELECT FROM webhook_outbox WHERE state = 'pending'`);
  return rows.length;
}

async function told(ids: readonly string[]): Promise<Map<string, string>> {
  const rows = await receiver.query<{ event_id: string; told: string }>(
    `SELECT c.event_id, format('record %s, rows %s, done %s', r.applied_count, count(o.id),
                               count(o.id) FILTER (WHERE o.state = 'done')) AS told
       FROM webhook_claim c LEFT JOIN chaos_record r USING (source, event_id)
       LEFT JOIN webhook_outbox o ON o.source = c.source AND o.event_id = c.event_id
      WHERE c.event_id = ANY($1) GROUP BY c.event_id, r.applied_count`,
    [ids],
  );
  const found = new Map(rows.map((row) => [row.event_id, row.told]));
  return new Map(ids.map((id) => [id, found.get(id) ?? 'no claim']));
}

function keysOf(eventId: string): string[] {
  return calls.filter((call) => call.applied && call.eventId === eventId).map(({ key }) => key);
}
