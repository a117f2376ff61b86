import { EVENTS, type InboxModel, type Row } from './inbox.model.js';
import type { World } from './world.js';

interface Tables {
  readonly claims: readonly object[] | null;
  readonly applied: Readonly<Record<string, number>> | null;
  readonly conflicts: number;
}

const TABLES = `
  SELECT (SELECT json_agg(json_build_object('event', event_id, 'erased', erased_at IS NOT NULL, 'empty', body IS NULL)
                          ORDER BY event_id) FROM webhook_claim) AS claims,
         (SELECT json_object_agg(event_id, applied_count) FROM received_event) AS applied,
         (SELECT count(*)::int FROM webhook_conflict) AS conflicts`;

/** Everything that the tables say and that the model has a word on. */
export async function expectSame(model: InboxModel, world: World): Promise<void> {
  const seen = await world.seen();
  for (const row of model.rows)
    row.id ??= seen.find(
      ({ id, event, unit }) =>
        event === row.event && unit === row.unit && !model.rows.some((other) => other.id === id),
    )?.id;
  expect(seen.map(({ id, ...row }) => ({ id, ...row })).toSorted(byId)).toEqual(
    model.rows.map(asSeen).toSorted(byId),
  );
  const [tables] = await world.database.query<Tables>(TABLES);
  expect(tables!.claims ?? []).toEqual(
    EVENTS.flatMap((event) => {
      const claim = model.claims.get(event);
      return claim === undefined ? [] : [{ event, erased: claim.erased, empty: claim.erased }];
    }),
  );
  expect(tables!.conflicts).toBe(model.conflicts.size);
  // Work that was committed: once for each time that a handler got done, whatever was tried in between.
  expect(tables!.applied ?? {}).toEqual(Object.fromEntries(model.applied));
  // One key for each row that was called, and none for any other.
  expect(world.keys).toEqual(new Set([...model.called].map(({ id }) => id)));
}

function asSeen(row: Row) {
  const { id, event, unit, state, reason, attempt, lost, generation, lease, due, expired } = row;
  const isDue = lease === undefined ? due : expired;
  return {
    id,
    event,
    unit,
    state,
    reason,
    attempt,
    lost,
    generation,
    leased: lease !== undefined,
    due: state === 'pending' ? isDue : expect.any(Boolean),
  };
}

const byId = (a: { readonly id?: string }, b: { readonly id?: string }) =>
  (a.id ?? '').localeCompare(b.id ?? '');
