import { Option } from 'commander';
import { EVENT_STATES, type EventState } from '../../core/states.js';
import type { ReplayPlan } from '../../operator/replay/replay.planner.js';
import type { ReplaySelection } from '../../operator/replay/replays.js';
import { count, deciderOf, list, moment, type DeedOptions, type Definition, type Task } from '../command.js';
import { EXIT, UsageError, type Exit } from '../terminal/exit.js';
import type { Output } from '../terminal/output.js';
import { eventNamed } from './events.js';

interface ReplayOptions {
  readonly source?: string;
  readonly tenant?: string;
  readonly type?: string;
  readonly state?: EventState;
  readonly from?: Date;
  readonly to?: Date;
  readonly limit?: number;
  readonly all?: boolean;
  readonly refire?: readonly string[];
  readonly newEffects: 'refuse' | 'allow';
  readonly perSecond?: number;
  readonly id?: string;
}

export const replay: Definition<ReplayOptions> = {
  usage: 'replay [event...]',
  about:
    "Runs settled events again with today's handlers; effects that are done stay done. Names events, or chooses them by options.",
  needs: { application: "the application's handlers" },
  writes: true,
  options: [
    new Option('--source <name>', 'events of a source'),
    new Option('--tenant <name>', 'events of a tenant'),
    new Option('--type <type>', 'events of a type'),
    new Option('--state <state>', 'events in a state').choices(EVENT_STATES),
    new Option('--from <time>', 'received since: 2h (ago), 2026-08-01, 2026-08-01T09:00Z').argParser(moment),
    new Option('--to <time>', 'received until').argParser(moment),
    new Option('--limit <n>', 'at most so many events; default: 1000').argParser(count),
    new Option('--all', 'every event'),
    new Option('--refire <effects>', 'effects to call once more although they are done').argParser(list),
    new Option('--new-effects <policy>', 'effects that a handler enqueues for the first time')
      .choices(['refuse', 'allow'])
      .default('refuse'),
    new Option('--per-second <n>', 'at most so many events a second').argParser(count),
    new Option('--id <id>', 'continue an interrupted replay, by its id'),
  ],
  run: async (task, options, ...args) => {
    const [named = []] = args as unknown[] as [string[]?];
    const selection = await selectionOf(task, named, options);
    return options.dryRun === true ? preview(task, selection, options) : run(task, selection, options);
  },
};

async function selectionOf(
  { session }: Task,
  named: readonly string[],
  options: ReplayOptions,
): Promise<ReplaySelection> {
  const { source, tenant, type, state, from, to, limit, all } = options;
  if (named.length > 0) {
    const wrong = Object.entries({ type, state, from, to, limit, all }).find(
      ([, value]) => value !== undefined,
    );
    if (wrong !== undefined)
      throw new UsageError(
        `--${wrong[0]}: expected either events by their ids or a choice by options, received both`,
      );
    const events = [];
    for (const id of named) events.push(await eventNamed(session, id, options));
    return { events: events.map(({ source, tenant, eventId }) => ({ source, tenant, eventId })) };
  }
  const given = Object.entries({ source, tenant, type, state, from, to, limit, all });
  return Object.fromEntries(given.filter(([, value]) => value !== undefined)) as ReplaySelection;
}

async function preview(
  { session, out }: Task,
  selection: ReplaySelection,
  { refire = [], newEffects }: ReplayOptions,
): Promise<Exit | undefined> {
  const plans = await session.replays.preview(selection, refire, newEffects);
  out.answer({ dryRun: true, plans }, () => listPlans(out, plans));
  if (plans.length === 0) return EXIT.nothing;
  return plans.some(({ refused }) => refused !== undefined) ? EXIT.partly : undefined;
}

async function run(
  { session, out, signal }: Task,
  selection: ReplaySelection,
  { refire = [], newEffects, perSecond, id, ...deed }: ReplayOptions & DeedOptions,
): Promise<Exit | undefined> {
  const progress = out.progress('replaying');
  const report = await session.replays.run(selection, {
    ...deciderOf(deed),
    refire,
    newEffects,
    signal,
    ...(perSecond !== undefined && { perSecond }),
    ...(id !== undefined && { id }),
    onProgress: (so, selected) =>
      progress.at(so.replayed + so.skipped + so.refused.length, selected, `${so.refused.length} refused`),
  });
  progress.end();
  out.answer({ ...report, interrupted: signal.aborted }, () => {
    out.line(
      `${report.replayed} events replayed, ${report.skipped} taken before, ${report.refused.length} refused.`,
    );
    if (report.refused.length > 0) listPlans(out, report.refused);
    if (signal.aborted) out.line(`To continue, run the same command with --id ${report.id}`);
  });
  if (signal.aborted) return EXIT.interrupted;
  if (report.refused.length > 0) return EXIT.partly;
  return report.replayed + report.skipped === 0 ? EXIT.nothing : undefined;
}

function listPlans(out: Output, plans: readonly ReplayPlan[]): void {
  out.table(
    ['SOURCE', 'EVENT', 'RUNS', 'STAYS DONE', 'HAPPENS AGAIN', 'REFUSED'],
    plans.map((plan) => [
      plan.event.source,
      plan.event.eventId,
      plan.run.map(({ handler }) => handler).join(', '),
      plan.staysDone.map(({ name }) => name).join(', '),
      plan.refired.map(({ name }) => name).join(', '),
      plan.refused,
    ]),
  );
}
