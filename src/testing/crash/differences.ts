import type { Outcome } from './outcome.js';

type Rows = readonly Readonly<Record<string, string>>[];
/** Columns by table. */
export type Columns = ReadonlyMap<string, ReadonlySet<string>>;

/** Columns whose values differ between two events without a crash: times of now, ids that are counted. */
export function varyingColumns(one: Outcome, other: Outcome): Columns {
  const varying = new Map<string, Set<string>>();
  for (const [table, rows] of one.rows) {
    const others = other.rows.get(table) ?? [];
    const names = new Set([...rows, ...others].flatMap((row) => Object.keys(row)));
    const differs = (name: string) => valuesOf(rows, name) !== valuesOf(others, name);
    varying.set(table, new Set([...names].filter(differs)));
  }
  return varying;
}

/** The differences from a trial without a crash, in words. */
export function differences(expected: Outcome, found: Outcome, varying: Columns): string[] {
  return [
    ...found.unfinished,
    ...tableDifferences(expected, found, varying),
    ...effectDifferences(expected, found),
    ...callDifferences(expected, found),
  ];
}

function tableDifferences(expected: Outcome, found: Outcome, varying: Columns): string[] {
  return [...new Set([...expected.rows.keys(), ...found.rows.keys()])].flatMap((table) => {
    const wanted = expected.more.get(table) ?? 0;
    const count = found.more.get(table) ?? 0;
    if (wanted !== count) {
      const advice = count > wanted ? WRITE_ONCE : '';
      return [`table ${table}: expected ${rowCount(wanted)} more, found ${count}${advice}`];
    }
    return rowDifferences(table, expected.rows.get(table) ?? [], found.rows.get(table) ?? [], varying);
  });
}

const WRITE_ONCE = '. Write through the `manager` that the handler is given, with a key from the event';

function rowDifferences(table: string, expected: Rows, found: Rows, varying: Columns): string[] {
  const names = new Set([...expected, ...found].flatMap((row) => Object.keys(row)));
  return [...names]
    .filter((name) => varying.get(table)?.has(name) !== true)
    .flatMap((name) => {
      const [wanted, is] = [valuesOf(expected, name), valuesOf(found, name)];
      if (wanted === is) return [];
      return [`table ${table}, column ${name}: expected ${wanted}, found ${is}. ${SET_NOT_ADD}`];
    });
}

const SET_NOT_ADD = 'Write a value that is the same in each run, and add only where an insert was new';

function effectDifferences(expected: Outcome, found: Outcome): string[] {
  return [...new Set([...expected.effects.keys(), ...found.effects.keys()])].flatMap((name) => {
    const [wanted, is] = [expected.effects.get(name)?.size ?? 0, found.effects.get(name)?.size ?? 0];
    if (wanted === is) return [];
    const advice = is > wanted ? `. ${SAME_KEY}` : '';
    return [`effect '${name}': expected calls under ${keyCount(wanted)}, found ${keyCount(is)}${advice}`];
  });
}

const SAME_KEY = 'Give `enqueue` a key that is the same in each run, or none';

function callDifferences(expected: Outcome, found: Outcome): string[] {
  return [...found.calls].flatMap(([who, count]) => {
    const wanted = expected.calls.get(who) ?? 0;
    if (count <= wanted) return [];
    const advice = who.startsWith('handler') ? CALL_IN_EFFECT : SEND_THE_KEY;
    return [`${who}: expected ${wanted} times, found ${count}. ${advice}`];
  });
}

const CALL_IN_EFFECT = 'Make the call in an effect, and enqueue the effect';
const SEND_THE_KEY = 'Send `context.key` as the idempotency key';

function valuesOf(rows: Rows, name: string): string {
  return rows
    .map((row) => row[name] ?? 'nothing')
    .toSorted()
    .join(', ');
}

const rowCount = (count: number) => `${count} ${count === 1 ? 'row' : 'rows'}`;
const keyCount = (count: number) => `${count} ${count === 1 ? 'key' : 'keys'}`;
