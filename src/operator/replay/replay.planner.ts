import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { EventKey } from '../../core/event.js';
import type { OutboxState } from '../../core/states.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { ClaimStore } from '../../storage/claim.store.js';
import type { NamedEffect, NewEffects } from '../../storage/leased-rows.js';
import { ReplayStore, type EventRow } from '../../storage/desk/replay.store.js';

/** The effects of a replay on one event. */
export interface ReplayPlan {
  readonly event: EventKey;
  /** Our id of the event; undefined when there is none. */
  readonly id?: string;
  /** Why it cannot be replayed; undefined when it can. */
  readonly refused?: string;
  /** Handlers that run, under the names of today. */
  readonly run: readonly PlannedRun[];
  /** Effects that are done and stay done. */
  readonly staysDone: readonly PlannedEffect[];
  /** Effects that are done and happen once more, under a new key. */
  readonly refired: readonly PlannedEffect[];
}
/** A handler that a replay would run. */
export interface PlannedRun {
  readonly handler: string;
  /** Undefined for a handler that the event has not been handled by. */
  readonly rowId?: string;
  /**
   * Set for a handler that was done for the event: how to treat effects that it enqueues for the first time. Its code alone knows them.
   * Where they are refused, the run is rolled back, and the next plan lists them in `refused`.
   */
  readonly newEffects?: NewEffects;
  /** Effects that its last run was refused: `newEffects: 'allow'` has them done. */
  readonly refused?: readonly NamedEffect[];
}
/** An effect that a replay would leave done, or call once more. */
export interface PlannedEffect extends NamedEffect {
  readonly id: string;
}

/** An effect that may still happen under its present key must not happen under a new one as well. */
const NOT_ENDED: ReadonlyMap<OutboxState, string> = new Map([
  ['pending', 'refire it when it has ended'],
  ['parked', 'decide about it first'],
  ['dead', 'revive it instead'],
  ['handed', 'refire it when its consumer has reported'],
]);

/** Says what a replay does, for the preview and for the replay itself. */
@Injectable()
export class ReplayPlanner {
  constructor(
    private readonly registry: HandlerRegistry,
    private readonly claims: ClaimStore,
    private readonly store: ReplayStore,
  ) {}

  async plan(
    manager: EntityManager,
    event: EventKey,
    refire: readonly string[],
    newEffects: NewEffects = 'refuse',
  ): Promise<ReplayPlan> {
    const { source, tenant, eventId } = event;
    const stored = await this.claims.load(manager, event);
    const key = { source, tenant, eventId };
    if (stored === undefined) return refusal(key, undefined, 'no such event');
    if (stored.body === null)
      return refusal(key, stored.id, 'its body was removed, by retention or by a person');
    const rows = await this.store.rowsOf(manager, event);
    const handlerRows = rows.filter((row) => row.kind === 'handler');
    const unknown = handlerRows.find((row) => this.registry.handler(row.name) === undefined);
    if (unknown !== undefined) return refusal(key, stored.id, this.whyUnknown(unknown));
    const renamed = rows.find((row) => row.kind === 'effect' && this.registry.effect(row.name) === undefined);
    if (renamed !== undefined) return refusal(key, stored.id, whyUnknownEffect(renamed));
    const run = this.registry.match(source, stored.type).map((handler): PlannedRun => {
      const row = handlerRows.find(({ name }) => this.registry.handler(name) === handler);
      return { handler: handler.name, rowId: row?.id, ...onceDone(row, newEffects) };
    });
    if (run.length === 0)
      return refusal(key, stored.id, `no handler of source '${source}' matches '${stored.type}'`);
    const busy = handlerRows.find((row) => row.state === 'pending');
    if (busy !== undefined) return refusal(key, stored.id, `'${busy.name}' has not ended yet`);
    const parked = handlerRows.find((row) => row.state === 'parked');
    if (parked !== undefined)
      return refusal(key, stored.id, `'${parked.name}' is parked: decide about it first`);
    const again = new Set(run.map(({ rowId }) => rowId));
    const isNamed = ({ name }: EventRow) => refire.includes(this.registry.effect(name)?.name ?? name);
    const isRefired = (row: EventRow): boolean => {
      const { parentId } = row;
      if (again.has(parentId)) return isNamed(row);
      // An effect that another one enqueued when it was done comes with that one, and only with it.
      const parent = rows.find(({ id }) => id === parentId);
      return parent?.kind === 'effect' && isRefired(parent);
    };
    const owed = rows.find((row) => row.kind === 'effect' && isRefired(row) && NOT_ENDED.has(row.state));
    if (owed !== undefined)
      return refusal(key, stored.id, `effect '${owed.name}' is ${owed.state}: ${NOT_ENDED.get(owed.state)!}`);
    const done = rows.filter((row) => row.kind === 'effect' && row.state === 'done');
    const left = done.find((row) => isNamed(row) && !isRefired(row));
    if (left !== undefined) return refusal(key, stored.id, whyNotRefired(left, rows));
    return {
      event: key,
      id: stored.id,
      run,
      staysDone: done.filter((row) => !isRefired(row)).map(asPlanned),
      refired: done.filter(isRefired).map(asPlanned),
    };
  }

  private whyUnknown({ name, state }: EventRow): string {
    if (this.registry.routes().has(name)) {
      const only = `'${name}' is a route with @UseWebhook, and only a delivery can run one`;
      if (state !== 'dead' && state !== 'pending') return `${only}, once`;
      const remedy = 'have the provider send the event again';
      return state === 'dead' ? `${only}: revive its row, then ${remedy}` : `${only}: ${remedy}`;
    }
    return (
      `it was handled by '${name}', and no handler has this name today. ` +
      `If one was renamed, list the name: { was: ['${name.split('/')[1]}'] }. Otherwise its effects would happen again`
    );
  }
}

function onceDone(row: EventRow | undefined, newEffects: NewEffects): Partial<PlannedRun> {
  if (row === undefined || (row.state !== 'done' && row.rerun === null)) return {};
  return { newEffects, refused: row.rerun?.refused };
}

function whyUnknownEffect({ name }: EventRow): string {
  return (
    `it has an effect '${name}', and no effect has this name today. ` +
    `If one was renamed, list the name: { was: ['${name}'] }. Otherwise it would happen again under a new key. ` +
    `If it was removed, keep a method with @OnEffect('${name}') for as long as its events are kept`
  );
}

function whyNotRefired({ name, parentId }: EventRow, rows: readonly EventRow[]): string {
  const parent = rows.find(({ id }) => id === parentId);
  const by =
    parent === undefined ? 'something outside of this event' : `'${parent.name}', which does not run again`;
  return `effect '${name}' was enqueued by ${by}, so it cannot be refired; refire that effect, or enqueue it again`;
}

function refusal(event: EventKey, id: string | undefined, refused: string): ReplayPlan {
  return { event, id, refused, run: [], staysDone: [], refired: [] };
}

function asPlanned({ id, name, key }: EventRow): PlannedEffect {
  return { id, name, key };
}
