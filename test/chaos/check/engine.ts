import type { EngineDeeds } from '../play/engine.js';
import type { Sent, SinkCall } from '../play/log.js';
import type { Verdict } from './verdict.js';

export interface EngineTables {
  readonly events: readonly { readonly source: string; readonly eventId: string; readonly applied: number }[];
  /** Rows of the effects that the engine has, and what became of them. */
  readonly effects: readonly { readonly id: string; readonly state: string }[];
  /** Other rows of the outbox that are not done. */
  readonly notDone: readonly { readonly name: string; readonly state: string }[];
  /** Outbox ids in the consumers' database. */
  readonly consumed: readonly string[];
}

const EXAMPLES = 5;

/** What was promised, asked of the two databases and the sink. */
export function checkEngine(
  tables: EngineTables,
  logs: { readonly sent: readonly Sent[]; readonly calls: readonly SinkCall[] },
  told: EngineDeeds,
): Verdict {
  const faults: string[] = [];
  const blame = (fault: string, names: readonly string[]) => {
    if (names.length > 0) faults.push(`${fault}: ${names.length} (${names.slice(0, EXAMPLES).join(', ')})`);
    return names.length;
  };
  const claimed = new Set(tables.events.map(nameOf));
  const acknowledged = new Set(
    logs.sent.filter(({ status }) => status === 200).map(({ source, id }) => `${source}/${id}`),
  );
  const lost = [
    blame(
      'acknowledged without a claim',
      [...acknowledged].filter((name) => !claimed.has(name)),
    ),
    blame('events lost', tables.events.filter(({ applied }) => applied === 0).map(nameOf)),
  ];
  const doubled = [
    blame('events applied twice', tables.events.filter(({ applied }) => applied > 1).map(nameOf)),
  ];

  const done = tables.effects.filter(({ state }) => state === 'done').map(({ id }) => id);
  const settled = new Set(done);
  const consumed = new Set(tables.consumed);
  blame(
    'effects that are not done',
    tables.effects.filter(({ state }) => state !== 'done').map(({ id, state }) => `${id} ${state}`),
  );
  blame(
    'rows that are not done',
    tables.notDone.map(({ name, state }) => `${name} ${state}`),
  );
  blame(
    'done in the outbox, unknown to the consumers',
    done.filter((id) => !consumed.has(id)),
  );
  blame(
    'done by a consumer, and not in the outbox',
    tables.consumed.filter((id) => !settled.has(id)),
  );

  const idempotent = logs.calls.filter(({ sink }) => sink === 'idempotent');
  const applies = new Map<string, string[]>();
  for (const call of idempotent.filter(({ applied }) => applied))
    applies.set(nameOf(call), [...(applies.get(nameOf(call)) ?? []), call.key]);
  const owed = tables.events.filter(({ source }) => source !== 'charged').map(nameOf);
  lost.push(
    blame(
      'effects lost',
      owed.filter((name) => !applies.has(name)),
    ),
  );
  doubled.push(
    blame(
      'effects applied twice',
      [...applies].filter(([, keys]) => keys.length > 1).map(([name]) => name),
    ),
  );
  for (const [name, count] of Object.entries(told))
    if (count === 0) faults.push(`the run shows nothing: ${name} 0`);
  return {
    faults,
    figures: {
      events: tables.events.length,
      deliveries: logs.sent.length,
      ...told,
      effectsOfTheEngine: tables.effects.length,
      consumed: tables.consumed.length,
      calls: idempotent.length,
      applies: applies.size,
      lost: lost.reduce((sum, count) => sum + count, 0),
      doubled: doubled.reduce((sum, count) => sum + count, 0),
    },
  };
}

const nameOf = ({ source, eventId }: { source: string; eventId: string }) => `${source}/${eventId}`;
