import type { INestApplicationContext } from '@nestjs/common';
import { type EntityManager, DataSource } from 'typeorm';
import { InputRefused } from '../core/errors.js';
import { toMs, type Duration } from '../core/options/duration.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { endsWithin } from '../core/time/waits.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { HandOff } from '../outbox/relay/hand-off.js';
import { OutboxRelay } from '../outbox/relay/outbox.relay.js';
import { RelayLoop } from '../outbox/relay/relay.loop.js';
import { LeasedWork } from '../outbox/relay/leased-work.js';
import { add, report, subtract, type TickReport } from '../outbox/relay/tick-report.js';
import { TestKitStore } from '../storage/testing/test-kit.store.js';

const store = new TestKitStore();

/** The totals of an application's relay when `runDue` last reported them. */
const told = new WeakMap<LeasedWork, TickReport>();

/**
 * Runs handlers and effects until nothing is due. A failed row that waits for its retry stays waiting. The relay makes no rounds of its own
 * meanwhile. Runs that it has begun or ended since the last call are awaited and counted, so the report does not depend on which of them
 * was first.
 * @throws ConfigurationError under `relay: false`, and in an application that is not initialised
 */
export async function runDue(app: INestApplicationContext, maxMs = 10_000): Promise<TickReport> {
  app.get(HandlerRegistry).checkFilled();
  const work = app.get(LeasedWork);
  const end = performance.now() + maxMs;
  await app.get(RelayLoop).hold(async () => {
    await app.get(HandOff).finish(maxMs);
    await endsWithin(work.waitForRuns(), maxMs);
    await app.get(OutboxRelay).drain({ maxMs: end - performance.now() });
  });
  const before = told.get(work) ?? report([]);
  told.set(work, work.totals);
  return subtract(work.totals, before);
}

/**
 * Runs handlers and effects until nothing is pending. Where only retries and delayed effects wait, their time is made to come.
 * It stops where nothing can go on: at a pause, and after `maxMs` milliseconds.
 * @throws ConfigurationError as `runDue` does
 */
export async function drain(app: INestApplicationContext, maxMs = 10_000): Promise<TickReport> {
  const end = performance.now() + maxMs;
  let total = report([]);
  for (;;) {
    total = add(total, await runDue(app, Math.max(0, end - performance.now())));
    const waitMs = await store.nextDueMs(managerOf(app));
    if (waitMs === undefined || performance.now() >= end) return total;
    await store.advance(managerOf(app), Math.max(0, waitMs));
  }
}

/**
 * Moves the clock of waiting work: retries and delayed effects come due sooner by this time. Call `runDue` after it. The clocks of
 * the database and of Node do not change.
 * @param time milliseconds, or text such as '5m'
 * @throws InputRefused for an invalid time
 */
export async function advance(app: INestApplicationContext, time: Duration): Promise<void> {
  const ms = toMs(time);
  if (ms === undefined)
    throw new InputRefused(
      `advance(): expected milliseconds or text such as '5m', received '${String(time)}'`,
    );
  await store.advance(managerOf(app), ms);
}

export function managerOf(app: INestApplicationContext): EntityManager {
  return app.get<DataSource>(WEBHOOKS_DATA_SOURCE).manager;
}
