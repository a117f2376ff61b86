import { Option } from 'commander';
import type { Overview, Range } from '../../operator/stats.js';
import type { Definition } from '../command.js';
import { span } from '../terminal/table.js';

const COUNTS = [
  'deliveries',
  'handled',
  'duplicates',
  'rejected',
  'retried',
  'dead',
  'lost',
  'unavailable',
] as const;

export const status: Definition<{ readonly range: Range }> = {
  usage: 'status',
  about: 'Shows pending work, instances, pauses, and the counts of the last hour or day.',
  needs: 'tables',
  lists: true,
  options: [new Option('--range <range>', 'counts of the last').choices(['hour', 'day']).default('hour')],
  run: async ({ session, out }, { range }) => {
    const overview = await session.stats.overview(range);
    const { instances, overdue } = await session.inspector.relays();
    const paused = await session.operator.paused();
    const totals = totalsOf(overview);
    const { pending, dead, parked, running, handed } = overview.now;
    const withEngines = handed.reduce((sum, { rows }) => sum + rows, 0);
    const alive = instances.filter((one) => one.alive);
    out.answer(
      {
        owed: { pending, dead, parked, handed: withEngines, running },
        range,
        totals,
        instances,
        overdue,
        handed,
        paused,
      },
      () => {
        out.table(
          ['PENDING', 'RUNNING', 'HANDED', 'DEAD', 'PARKED', 'INSTANCES'],
          [[pending, running, withEngines, dead, parked, alive.length]],
        );
        out.line();
        out.line(`In the last ${range}:`);
        out.table(
          COUNTS.map((name) => name.toUpperCase()),
          [COUNTS.map((name) => totals[name])],
        );
        if (alive.length > 0) {
          out.line();
          out.table(
            ['INSTANCE', 'PID', 'RELAY', 'WOKEN BY', 'RUNNING', 'LAST SIGN'],
            alive.map((one) => [
              one.host,
              one.pid,
              one.relays ? 'on' : 'off',
              one.listens ? 'LISTEN' : 'poll',
              one.running,
              `${span(one.silentMs)} ago`,
            ]),
          );
        }
        if (overdue.length > 0) {
          out.line();
          out.table(
            ['OVERDUE', 'FOR'],
            overdue.map(({ name, ageMs }) => [name, span(ageMs)]),
          );
        }
        if (handed.length > 0) {
          out.line();
          out.table(
            ['HANDED TO AN ENGINE', 'ROWS', 'OLDEST', 'UNHEARD'],
            handed.map(({ name, rows, ageMs, unheard }) => [name, rows, span(ageMs), unheard]),
          );
        }
        if (paused.length > 0) {
          out.line();
          out.table(
            ['PAUSED', 'NAME', 'BY', 'SINCE', 'REASON'],
            paused.map((one) => [one.kind, one.name, one.pausedBy, one.pausedAt, one.reason]),
          );
        }
      },
    );
    return undefined;
  },
};

function totalsOf({ steps }: Overview): Record<(typeof COUNTS)[number], number> {
  const sum = (name: (typeof COUNTS)[number]) => steps.reduce((total, step) => total + step[name], 0);
  return Object.fromEntries(COUNTS.map((name) => [name, sum(name)])) as Record<
    (typeof COUNTS)[number],
    number
  >;
}
