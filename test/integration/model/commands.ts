import type * as fc from 'fast-check';
import { Erasure, Parked, Pauses, Replays, Retention, Revivals } from '../../../src/index.js';
import { expectSame } from './compare.js';
import {
  EVENTS,
  UNITS,
  type Effect,
  type End,
  type EventId,
  type InboxModel,
  type Outcome,
  type Row,
  type State,
} from './inbox.model.js';
import { RoundModel } from './round.model.js';
import type { World } from './world.js';

export type Command = fc.AsyncCommand<InboxModel, World>;
export type Target = keyof typeof TARGETS;

const WHO = { by: 'a model', reason: 'to see' };
/** Each hanging handler keeps a connection. */
const MAX_HELD = 4;
const TARGETS = { source: 'awardee', handle: 'awardee/handle', mail: 'mail', charge: 'charge' } as const;
const KINDS = { source: 'source', handle: 'handler', mail: 'effect', charge: 'effect' } as const;

/** A command's name, what it does to both, and what it needs; the tables are compared after it. */
function command(
  name: string,
  run: (model: InboxModel, world: World) => Promise<void>,
  check: (model: Readonly<InboxModel>) => boolean = () => true,
): Command {
  return {
    check,
    run: async (model, world) => {
      await run(model, world);
      await expectSame(model, world);
    },
    toString: () => name,
  };
}

function same(what: string, expected: unknown, actual: unknown): void {
  if (expected !== actual)
    throw new Error(`model: ${what}: expected ${String(expected)}, received ${String(actual)}`);
}

const of = <T>(list: readonly T[], index: number): T => list[index % list.length]!;
const keyOf = (eventId: EventId) => ({ source: 'awardee', tenant: '', eventId });

export const deliver = (id: EventId, variant: number, at: number) =>
  command(`deliver ${id}${variant} to ${at}`, async (model, world) => {
    const answer = await world.inboxes[at]!.deliver(id, 'grant.made', { id, variant });
    same('answer', JSON.stringify({ status: model.deliver(id, variant) }), JSON.stringify(answer.body));
  });

/** @param outcomes of each event's units, in their order; `done` where there are fewer */
export function round(at: number, outcomes: readonly Outcome[]): Command {
  const odd = outcomes.flatMap((outcome, index) =>
    outcome === 'done'
      ? []
      : [`${EVENTS[Math.floor(index / UNITS.length)]}/${UNITS[index % UNITS.length]} ${outcome}`],
  );
  return command(
    [`round of ${at}`, ...odd].join(', '),
    async (model, world) => {
      const full = model.held.length >= MAX_HELD;
      const calls = await world.round(
        at,
        full ? outcomes.map((one) => (one === 'hangs' ? 'done' : one)) : outcomes,
      );
      new RoundModel(model, at).play(calls, await world.seen());
    },
    // A row that is to run alone would wait, leased, for what hangs.
    (model) => !model.held.some(({ run }) => run.relay === at) || !model.pending().some(wasLostAgain),
  );
}
const wasLostAgain = (row: Row) => row.expired && row.lane > 0;

export const end = (index: number, how: End) =>
  command(
    `run ${index} ends: ${how}`,
    async (model, world) => {
      const held = of(model.held, index);
      await world.end({ outboxId: held.row.id!, attempt: held.run.attempt }, how);
      model.endRun(held, how);
    },
    (model) => model.held.length > 0,
  );

const leasedRows = (model: Readonly<InboxModel>) => model.pending().filter((row) => model.isLeased(row));
/** Processes have died, or were cut off: those who hold the leases do not know. */
export const expire = (index?: number) =>
  command(
    index === undefined ? 'all leases end' : `lease ${index} ends`,
    async (model, world) => {
      const leased = leasedRows(model);
      for (const row of index === undefined ? leased : [of(leased, index)]) {
        await world.database.query(
          `UPDATE webhook_outbox SET lease_until = now(), due_at = least(due_at, now()) WHERE id = $1`,
          [row.id],
        );
        row.expired = true;
      }
    },
    (model) => leasedRows(model).length > 0,
  );

export const hoursPass = () =>
  command('hours pass', async (model, world) => {
    await world.inboxes[0]!.makeDue();
    model.makeDue();
  });

export const forget = (id: EventId) =>
  command(`the keys of ${id} are forgotten`, async (model, world) => {
    await world.database.query(
      `UPDATE webhook_outbox SET first_leased_at = now() - interval '2 days'
        WHERE event_id = $1 AND kind = 'effect' AND first_leased_at IS NOT NULL`,
      [id],
    );
    model.forget(id);
  });

export const replay = (id: EventId, refire: Effect | undefined, at: number) =>
  command(`replay ${id}${refire === undefined ? '' : ` with ${refire}`}`, async (model, world) => {
    const options = { ...WHO, refire: refire === undefined ? [] : [refire] };
    const report = await world.inboxes[at]!.app.get(Replays).run({ events: [keyOf(id)] }, options);
    same('replayed', model.replay(id, refire) ? 1 : 0, report.replayed);
  });

/** One of those in that state, or, where none is, any: what is in another state must stay as it is. */
function rowIn(state: State, model: Readonly<InboxModel>, index: number): Row {
  const fitting = model.rows.filter((row) => row.state === state);
  return of(fitting.length > 0 ? fitting : model.rows, index);
}
const hasRows = (model: Readonly<InboxModel>) => model.rows.length > 0;

export const revive = (index: number) =>
  command(
    `revive dead row ${index}`,
    async (model, world) => {
      const row = rowIn('dead', model, index);
      const revived = await world.inboxes[0]!.app.get(Revivals).revive([row.id!], WHO);
      same('revived', model.revive(row) ? 1 : 0, revived.length);
    },
    hasRows,
  );

export const decide = (index: number, decision: 'retry' | 'done' | 'dead') =>
  command(
    `parked row ${index}: ${decision}`,
    async (model, world) => {
      const row = rowIn('parked', model, index);
      const decided = await world.inboxes[1]!.app.get(Parked).decide(row.id!, decision, WHO);
      same('decided', model.decide(row, decision), decided);
    },
    hasRows,
  );

export const pause = (what: Target, action: 'pause' | 'resume', at: number) =>
  command(`${action} ${what}`, async (model, world) => {
    await world.inboxes[at]!.app.get(Pauses)[action](KINDS[what], TARGETS[what], WHO);
    world.forgetPauses();
    if (action === 'pause') model.paused.add(what);
    else model.paused.delete(what);
  });

export const erase = (id: EventId, at: number) =>
  command(`erase ${id}`, async (model, world) => {
    const { outcome, cancelled } = await world.inboxes[at]!.app.get(Erasure).erase(keyOf(id), WHO);
    const expected = model.erase(id);
    same('erased', expected !== undefined, outcome === 'erased');
    same('cancelled', expected ?? 0, cancelled.length);
  });

export const prune = (id: EventId, at: number) =>
  command(`${id} is old, and retention runs`, async (model, world) => {
    await world.database.query(
      `UPDATE webhook_claim SET received_at = now() - interval '100 days' WHERE event_id = $1`,
      [id],
    );
    // What has died of an old event since the last time is old by now as well.
    await world.database.query(
      `UPDATE webhook_outbox o SET settled_at = now() - interval '100 days' FROM webhook_claim c
        WHERE c.source = o.source AND c.tenant = o.tenant AND c.event_id = o.event_id
          AND c.received_at < now() - interval '50 days' AND o.settled_at IS NOT NULL`,
    );
    const { claims } = await world.inboxes[at]!.app.get(Retention).prune();
    same('claims pruned', model.prune(id), claims);
  });
