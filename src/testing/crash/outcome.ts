import type { EntityManager } from 'typeorm';
import { TestKitStore, type KitRow } from '../../storage/testing/test-kit.store.js';
import type { CalledEffect } from './crashing-app.js';
import type { OutsideCall } from './outside-calls.js';

/** A row of a table, its columns as JSON. */
type Row = Readonly<Record<string, string>>;

/** The content of the database. */
export interface Snapshot {
  /** Rows as JSON, by table. */
  readonly tables: ReadonlyMap<string, readonly string[]>;
  readonly outbox: readonly KitRow[];
}

/** The effects of one event, with its id taken out. */
export interface Outcome {
  /** Rows that are new or changed, by table. */
  readonly rows: ReadonlyMap<string, readonly Row[]>;
  /** By how much the number of rows changed. */
  readonly more: ReadonlyMap<string, number>;
  /** Keys under which each effect was called. */
  readonly effects: ReadonlyMap<string, ReadonlySet<string>>;
  /** Requests that change something, by whose they are and where they go. Under one key, many are one. */
  readonly calls: ReadonlyMap<string, number>;
  /** Work of the event that has not come to its end. */
  readonly unfinished: readonly string[];
  /** Handler rows of the event. */
  readonly handlers: readonly KitRow[];
}

/** Observations during a trial, besides the database. */
export interface Seen {
  readonly effects: readonly CalledEffect[];
  readonly calls: readonly OutsideCall[];
}

const store = new TestKitStore();

export async function snapshot(manager: EntityManager): Promise<Snapshot> {
  const tables = new Map<string, readonly string[]>();
  for (const table of await store.tables(manager)) tables.set(table, await store.content(manager, table));
  return { tables, outbox: await store.rows(manager) };
}

/** @param id of the event */
export function outcomeOf(id: string, before: Snapshot, after: Snapshot, seen: Seen): Outcome {
  const rows = new Map<string, Row[]>();
  const more = new Map<string, number>();
  for (const [table, content] of after.tables) {
    const former = before.tables.get(table) ?? [];
    rows.set(
      table,
      added(former, content).map((json) => rowOf(json.replaceAll(id, '<id>'))),
    );
    more.set(table, content.length - former.length);
  }
  const work = workOf(before, after);
  return {
    rows,
    more,
    effects: keysOf(seen.effects),
    calls: countsOf(id, seen.calls),
    unfinished: work.filter(isUnfinished).map(textOf),
    handlers: work.filter(({ kind }) => kind === 'handler'),
  };
}

/** The outbox rows that are new since then. */
export function workOf(before: Snapshot, after: Pick<Snapshot, 'outbox'>): KitRow[] {
  const known = new Set(before.outbox.map(({ id }) => id));
  return after.outbox.filter(({ id }) => !known.has(id));
}

/** An effect that is parked in doubt has come to the end that its own option `inDoubt: 'park'` names. */
function isUnfinished({ state, reason }: KitRow): boolean {
  return state === 'pending' || state === 'dead' || (state === 'parked' && reason !== 'in-doubt');
}

function textOf({ kind, name, state, reason, error }: KitRow): string {
  const why = error ?? reason;
  return `${kind} ${name} is ${state}${why === null ? '' : `: ${why}`}`;
}

/** Lines of `now` that `before` has not, as often as they are there. */
function added(before: readonly string[], now: readonly string[]): string[] {
  const left = new Map<string, number>();
  for (const line of before) left.set(line, (left.get(line) ?? 0) + 1);
  return now.filter((line) => {
    const count = left.get(line) ?? 0;
    left.set(line, count - 1);
    return count <= 0;
  });
}

function rowOf(json: string): Row {
  const columns = JSON.parse(json) as Record<string, unknown>;
  return Object.fromEntries(Object.entries(columns).map(([name, value]) => [name, JSON.stringify(value)]));
}

function keysOf(effects: readonly CalledEffect[]): Map<string, Set<string>> {
  const keys = new Map<string, Set<string>>();
  for (const { name, key } of effects) keys.set(name, (keys.get(name) ?? new Set()).add(key));
  return keys;
}

function countsOf(id: string, calls: readonly OutsideCall[]): Map<string, number> {
  const seen = new Set<string>();
  const counts = new Map<string, number>();
  for (const [nth, { by, line, key }] of calls.entries()) {
    const target = line.replaceAll(id, '<id>').replaceAll(by.key ?? id, '<key>');
    const who = `${by.kind} ${by.name} sent ${target}`;
    const one = `${who} ${key ?? `without a key, ${nth}`}`;
    if (seen.has(one)) continue;
    seen.add(one);
    counts.set(who, (counts.get(who) ?? 0) + 1);
  }
  return counts;
}
