import type { INestApplicationContext } from '@nestjs/common';
import { parseJson } from '../core/body.js';
import { InputRefused } from '../core/errors.js';
import type { EventState, OutboxState } from '../core/states.js';
import { Inspector } from '../operator/inspector.js';
import type { EventRow } from '../storage/desk/event.sql.js';
import { TestKitStore } from '../storage/testing/test-kit.store.js';
import { managerOf } from './due-work.js';

/** A handler's run of an event. */
export interface RunReport {
  /** The full name: `source/name`. */
  readonly handler: string;
  readonly state: OutboxState;
  /** How often it was run. */
  readonly attempts: number;
  /** The returned value, shortened. */
  readonly result: string | null;
  /** The error of the last attempt. */
  readonly error: string | null;
}

/** An effect of an event. */
export interface EffectReport {
  readonly effect: string;
  /** The key that distinguishes several effects of one name: `enqueue(name, payload, { key })`. */
  readonly key: string;
  /** The idempotency key. */
  readonly idempotencyKey: string;
  readonly payload: unknown;
  readonly state: OutboxState;
  readonly attempts: number;
  readonly error: string | null;
}

/** An event with all that happened to it. */
export interface EventReport {
  readonly source: string;
  readonly tenant: string;
  readonly eventId: string;
  readonly type: string;
  readonly state: EventState;
  /** In the order of their creation. */
  readonly runs: readonly RunReport[];
  readonly effects: readonly EffectReport[];
}

const store = new TestKitStore();

/**
 * An event by the provider's id: its state, its runs and its effects. Compare it with your test framework:
 * `expect(await expectEvent(app, 'evt_1')).toMatchObject({ state: 'processed', runs: [{ attempts: 1 }] })`.
 * @param of the source, or the tenant, where several have the id
 * @throws InputRefused when there is no such event, or more than one
 */
export async function expectEvent(
  app: INestApplicationContext,
  eventId: string,
  of: { readonly source?: string; readonly tenant?: string } = {},
): Promise<EventReport> {
  const found = await store.claims(managerOf(app), eventId, of);
  const [claim] = found;
  if (claim === undefined || found.length > 1) throw new InputRefused(await notOne(app, eventId, found));
  const inspector = app.get(Inspector);
  const event = (await inspector.event(claim.id))!;
  const effects = event.rows.filter(({ kind }) => kind === 'effect');
  const { source, tenant, type, state } = event;
  return {
    source,
    tenant,
    eventId,
    type,
    state,
    runs: event.rows.filter(({ kind }) => kind === 'handler').map(runReport),
    effects: await Promise.all(effects.map((row) => effectReport(inspector, row))),
  };
}

async function notOne(
  app: INestApplicationContext,
  eventId: string,
  found: readonly { readonly source: string; readonly tenant: string }[],
): Promise<string> {
  if (found.length > 1) {
    const places = found.map(({ source, tenant }) => (tenant === '' ? source : `${source} of ${tenant}`));
    return `expectEvent(): the event '${eventId}' is in ${places.join(', ')}: give the source, or the tenant`;
  }
  const known = await store.youngest(managerOf(app));
  const others = known.length === 0 ? 'no event was received' : `the last ones are ${known.join(', ')}`;
  return `expectEvent(): expected an event '${eventId}', and none has this id; ${others}`;
}

function runReport({ name, state, attempt, result, error }: EventRow): RunReport {
  return { handler: name, state, attempts: attempt, result, error };
}

async function effectReport(
  inspector: Inspector,
  { id, name, key, state, attempt, error }: EventRow,
): Promise<EffectReport> {
  const payload = await inspector.payload(id);
  return {
    effect: name,
    key,
    idempotencyKey: id,
    payload: payload ? parseJson(payload) : undefined,
    state,
    attempts: attempt,
    error,
  };
}
