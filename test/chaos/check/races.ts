import type { RacesReport } from '../play/races.js';
import type { Sent, SinkCall } from '../play/log.js';
import type { Verdict } from './verdict.js';

/** What is left of an event after a run of races. */
export interface RacedEvent {
  readonly source: string;
  readonly eventId: string;
  /** Rows of handlers, and of effects. */
  readonly handlers: number;
  readonly effects: number;
  /** How often its handlers' work stands in the business table, that of the later build's handler apart. */
  readonly applied: number;
  readonly appliedExtra: number;
  /** Replays that have taken it. */
  readonly replays: number;
}

export interface RacedTables {
  readonly events: readonly RacedEvent[];
  readonly notDone: readonly { readonly name: string; readonly state: string }[];
  readonly leased: number;
  /** Rows that each of the builds settled after the migration. */
  readonly settledBefore: number;
  readonly settledAfter: number;
}

const EXAMPLES = 5;

/** Everything that was promised, asked of what races have left; and whether they were races. */
export function checkRaces(
  tables: RacedTables,
  logs: { readonly sent: readonly Sent[]; readonly calls: readonly SinkCall[] },
  told: RacesReport,
): Verdict {
  const faults: string[] = [];
  const blame = (fault: string, names: readonly string[]) => {
    if (names.length > 0) faults.push(`${fault}: ${names.length} (${names.slice(0, EXAMPLES).join(', ')})`);
  };
  const wrong = (fault: string, is: (event: RacedEvent) => boolean) =>
    blame(
      fault,
      tables.events.filter(is).map((one) => `${nameOf(one)} ${JSON.stringify(one)}`),
    );
  const acknowledged = new Set(
    logs.sent.filter(({ status }) => status === 200).map(({ source, id }) => `${source}/${id}`),
  );
  const claimed = new Set(tables.events.map(nameOf));
  blame(
    'acknowledged without a claim',
    [...acknowledged].filter((name) => !claimed.has(name)),
  );
  const isOwn = ({ source }: RacedEvent) => source === 'own';
  wrong('lost', ({ applied }) => applied === 0);
  wrong('applied more often than asked', ({ applied, replays }) => applied > 1 + replays);
  wrong('without the later build’s handler', (event) => isOwn(event) && event.appliedExtra === 0);
  wrong(
    'the later build’s handler more often than asked',
    ({ appliedExtra, replays }) => appliedExtra > 1 + replays,
  );
  wrong('other handlers than the builds have', (event) => event.handlers !== (isOwn(event) ? 2 : 1));
  wrong(
    'other effects than its handlers enqueue',
    ({ source, effects, handlers }) => effects !== handlers + (source === 'recalled' ? 1 : 0),
  );
  blame(
    'rows that are not done',
    tables.notDone.map(({ name, state }) => `${name} ${state}`),
  );
  if (tables.leased > 0) faults.push(`rows still leased: ${tables.leased}`);

  const applies = keysOf(logs.calls.filter(({ sink, applied }) => sink === 'idempotent' && applied));
  blame(
    'effects applied under several keys',
    [...applies].filter(([, keys]) => keys.length > 1).map(([name]) => name),
  );
  blame(
    'effects lost',
    tables.events
      .filter(({ source }) => source !== 'charged')
      .map(nameOf)
      .filter((name) => !applies.has(name)),
  );
  const raw = logs.calls.filter(({ sink, applied }) => sink === 'raw' && applied);
  const extra = raw.length - keysOf(raw).size;
  if (extra > told.begun)
    faults.push(`extra calls of the raw sink: ${extra}, and ${told.begun} were begun at faults`);

  const replays = tables.events.reduce((total, one) => total + one.replays, 0);
  const shown = { replays, settledBefore: tables.settledBefore, settledAfter: tables.settledAfter };
  for (const [name, count] of Object.entries(shown))
    if (count === 0) faults.push(`the run shows nothing: ${name} 0`);
  return {
    faults,
    figures: {
      events: tables.events.length,
      deliveries: logs.sent.length,
      kills: told.kills,
      freezes: told.freezes,
      restarts: told.restarts,
      replaysAsked: told.replaysAsked,
      ...shown,
      idempotentApplies: applies.size,
      rawExtra: extra,
      rawBegunAtFaults: told.begun,
      lost: tables.events.filter(({ applied }) => applied === 0).length,
      doubled: tables.events.filter(({ applied, replays: asked }) => applied > 1 + asked).length,
    },
  };
}

const nameOf = ({ source, eventId }: { source: string; eventId: string }) => `${source}/${eventId}`;

/** Keys under which each event's effect was applied. */
function keysOf(calls: readonly SinkCall[]): Map<string, string[]> {
  const keys = new Map<string, string[]>();
  for (const call of calls)
    keys.set(nameOf(call), [...new Set([...(keys.get(nameOf(call)) ?? []), call.key])]);
  return keys;
}
