import { Option } from 'commander';
import { didYouMean } from '../../core/options/did-you-mean.js';
import { MAX_AT_ONCE } from '../../operator/replay/bulk.options.js';
import type { NotDead } from '../../operator/revivals.js';
import { deciderOf, type DeedOptions, type Definition, type Task } from '../command.js';
import type { Session } from '../session/session.js';
import { Ended, EXIT, UsageError, type Exit } from '../terminal/exit.js';
import type { Output } from '../terminal/output.js';

const FINGERPRINT = /^[0-9a-f]{32}$/;

export const dead: Definition<object> = {
  usage: 'dead [filter...]',
  about: 'Lists dead rows in groups of one error. With a group, lists its rows.',
  needs: 'tables',
  lists: true,
  run: async ({ session, out }, _options, ...args) => {
    const [words = []] = args as unknown[] as [string[]?];
    const [first] = words;
    if (first !== undefined && words.length === 1 && FINGERPRINT.test(first))
      return listGroup(session, out, first);
    const groups = await all(async (after) => {
      const page = await session.inspector.deadGroups(words.join(' '), after);
      return { items: page.groups, next: page.next };
    });
    out.answer({ groups }, () =>
      out.table(
        ['ROWS', 'NAME', 'STATE', 'REASON', 'LAST', 'GROUP', 'ERROR'],
        groups.map((one) => [
          one.count,
          one.name,
          one.state,
          one.reason,
          one.lastAt,
          one.fingerprint,
          one.error,
        ]),
      ),
    );
    return groups.length === 0 ? EXIT.nothing : undefined;
  },
};

async function listGroup(session: Session, out: Output, fingerprint: string): Promise<Exit | undefined> {
  const { group, rows } = await session.inspector.deadGroup(fingerprint);
  out.answer({ group: group ?? null, rows }, () =>
    out.table(
      ['ROW', 'NAME', 'ATTEMPT', 'FAILED', 'SOURCE', 'EVENT', 'ERROR'],
      rows.map((one) => [one.id, one.name, one.attempt, one.failedAt, one.source, one.eventId, one.error]),
    ),
  );
  return rows.length === 0 ? EXIT.nothing : undefined;
}

interface Chosen extends DeedOptions {
  readonly group?: string;
  readonly all?: boolean;
}

const chosenOptions = (): Option[] => [
  new Option('--group <group>', 'every row of a group, as `dead` lists them').conflicts('all'),
  new Option('--all', 'every dead row'),
];

export const revive: Definition<Chosen> = {
  usage: 'revive [row...]',
  about: 'Gives dead rows new attempts, under their old ids and keys.',
  needs: 'tables',
  writes: true,
  options: chosenOptions(),
  run: async (task, options, ...args) => {
    const ids = await chosen(task.session, args, options);
    if (options.dryRun === true) return previewed(task, ids);
    const act = async (some: string[]) => task.session.operator.revive(some, deciderOf(options));
    return acted(task, ids, 'revived', act);
  },
};

export const giveUp: Definition<Chosen> = {
  usage: 'give-up [row...]',
  about: 'Leaves dead rows dead for good: they release their order key, and no redelivery revives them.',
  needs: 'tables',
  writes: true,
  options: chosenOptions(),
  run: async (task, options, ...args) => {
    const ids = await chosen(task.session, args, options);
    if (options.dryRun === true) return counted(task, ids);
    const act = async (some: string[]) => task.session.operator.giveUp(some, deciderOf(options));
    return acted(task, ids, 'givenUp', act);
  },
};

/** @throws UsageError without a choice; Ended where it holds no row */
async function chosen(
  session: Session,
  args: readonly unknown[],
  { group, all: every }: Chosen,
): Promise<string[]> {
  const [named = []] = args as [string[]?];
  const given = [named.length > 0, group !== undefined, every === true].filter(Boolean).length;
  if (given !== 1)
    throw new UsageError('expected one of these: ids of rows, --group with a group of `dead`, or --all');
  if (named.length > 0) return named;
  const groups = group === undefined ? await groupNames(session) : [group];
  const ids: string[] = [];
  for (const one of groups) {
    if (!FINGERPRINT.test(one))
      throw new UsageError(
        `--group: expected 32 characters of a group, received '${one}'${didYouMean(one, await groupNames(session))}`,
      );
    ids.push(...(await rowsOf(session, one)));
  }
  if (ids.length === 0) throw new Ended(EXIT.nothing, 'no row is dead there');
  return ids;
}

async function groupNames(session: Session): Promise<string[]> {
  const groups = await all(async (after) => {
    const page = await session.inspector.deadGroups('', after);
    return { items: page.groups, next: page.next };
  });
  return groups.map(({ fingerprint }) => fingerprint);
}

async function rowsOf(session: Session, fingerprint: string): Promise<string[]> {
  const rows = await all(async (after) => {
    const page = await session.inspector.deadGroup(fingerprint, after, MAX_AT_ONCE);
    return { items: page.rows, next: page.next };
  });
  return rows.map(({ id }) => id);
}

async function all<T>(
  page: (after: string | undefined) => Promise<{ items: readonly T[]; next?: string | undefined }>,
): Promise<T[]> {
  const items: T[] = [];
  let after: string | undefined;
  do {
    const found = await page(after);
    items.push(...found.items);
    after = found.next;
  } while (after !== undefined);
  return items;
}

async function previewed({ session, out }: Task, ids: readonly string[]): Promise<Exit | undefined> {
  const total = { run: new Map<string, number>(), staysDone: new Map<string, number>(), notDead: 0 };
  for (const some of parts(ids)) {
    const plan = await session.operator.previewRevive(some);
    addTo(total.run, plan.run);
    addTo(total.staysDone, plan.staysDone);
    total.notDead += plan.notDead;
  }
  const [run, staysDone] = [Object.fromEntries(total.run), Object.fromEntries(total.staysDone)];
  out.answer({ dryRun: true, run, staysDone, notDead: total.notDead }, () => {
    out.table(
      ['ROWS', 'NAME', 'WOULD'],
      [
        ...[...total.run].map(([name, rows]) => [rows, name, 'run again']),
        ...[...total.staysDone].map(([name, rows]) => [rows, name, 'stay done']),
      ],
    );
    if (total.notDead > 0) out.line(`${total.notDead} rows are not dead.`);
  });
  return total.run.size === 0 ? EXIT.nothing : undefined;
}

async function counted({ session, out }: Task, ids: readonly string[]): Promise<Exit | undefined> {
  let rows = 0;
  for (const some of parts(ids)) rows += (await session.operator.progress(some)).states.dead ?? 0;
  out.answer({ dryRun: true, rows, notDead: ids.length - rows }, () =>
    out.line(`${rows} of ${ids.length} rows would be given up.`),
  );
  return rows === 0 ? EXIT.nothing : undefined;
}

function addTo(sums: Map<string, number>, more: Readonly<Record<string, number>>): void {
  for (const [name, rows] of Object.entries(more)) sums.set(name, (sums.get(name) ?? 0) + rows);
}

async function acted(
  { session, out, signal }: Task,
  ids: readonly string[],
  what: 'revived' | 'givenUp',
  act: (ids: string[]) => Promise<string[]>,
): Promise<Exit | undefined> {
  const done: string[] = [];
  const others: NotDead[] = [];
  const progress = out.progress(what === 'revived' ? 'reviving' : 'giving up');
  let looked = 0;
  for (const some of parts(ids)) {
    if (signal.aborted) break;
    const acted = await act(some);
    done.push(...acted);
    const left = some.filter((id) => !acted.includes(id.toLowerCase()));
    if (left.length > 0) others.push(...(await session.operator.whyNotDead(left)));
    progress.at((looked += some.length), ids.length);
  }
  progress.end();
  out.answer({ [what]: done, others, left: ids.length - looked }, () => {
    out.line(`${done.length} of ${ids.length} rows ${what === 'revived' ? 'revived' : 'given up'}.`);
    for (const { outboxId, why } of others) out.line(`${outboxId}: ${why}`);
    if (looked < ids.length) out.line(`${ids.length - looked} rows are left as they were.`);
  });
  if (looked < ids.length) return EXIT.interrupted;
  if (done.length === 0) return EXIT.nothing;
  return others.length > 0 ? EXIT.partly : undefined;
}

function parts(ids: readonly string[]): string[][] {
  const count = Math.ceil(ids.length / MAX_AT_ONCE);
  return Array.from({ length: count }, (_, at) => ids.slice(at * MAX_AT_ONCE, (at + 1) * MAX_AT_ONCE));
}
