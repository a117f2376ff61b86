import { didYouMean } from '../core/options/did-you-mean.js';
import { toMs } from '../core/options/duration.js';
import { InputRefused } from '../core/errors.js';
import { EVENT_STATES, OUTBOX_STATES } from '../core/states.js';
import { instantOf } from '../core/time/zoned-time.js';
import type { ListFilter, Test } from '../storage/desk/filter.sql.js';

const HINTS = {
  source: 'a source: source:stripe, or several: source:stripe,github',
  type: 'a type, or the start of one: type:invoice.paid, type:invoice.*',
  state: 'a state, or several: state:dead,parked',
  handler: 'a handler: handler:stripe/Billing.paid',
  effect: 'an effect: effect:mail',
  error: 'text of an error: error:timeout, error:"account closed"',
  reason: 'a reason: reason:wrong-signature',
  attempts: 'a number of attempts: attempts:3, attempts:>3',
  id: 'an id, or the start of one: id:evt_1, id:evt_*',
  tenant: 'a tenant: tenant:acme',
  by: 'a person: by:ann@example.com',
  action: 'an action: action:revive',
  target: 'text of the target: target:evt_1',
  why: 'text of the reason that was given: why:deploy',
  after: 'since: after:2h, after:2026-08-01, after:2026-08-01T09:00Z',
  before: 'until: before:30m, before:2026-08-01',
} as const;
type Key = keyof typeof HINTS;
const pathHint = (path: string) => `a value in the payload: ${path}:cus_9`;

/** The keys of each list's filter, in the order in which the page suggests them. */
export const FILTERS = {
  events: [
    'source',
    'type',
    'state',
    'handler',
    'effect',
    'error',
    'attempts',
    'id',
    'tenant',
    'after',
    'before',
  ],
  effects: ['effect', 'state', 'error', 'attempts', 'source', 'tenant', 'id', 'after', 'before'],
  dead: ['handler', 'effect', 'error', 'reason', 'attempts', 'source', 'tenant', 'id', 'after', 'before'],
  rejections: ['source', 'reason', 'error', 'after', 'before'],
  audit: ['by', 'action', 'target', 'why', 'after', 'before'],
} as const satisfies Record<string, readonly Key[]>;
/** A list that takes a filter. */
export type FilteredList = keyof typeof FILTERS;

/** The key of a word without one. */
const DEFAULT_KEY: Readonly<Record<FilteredList, Key>> = {
  events: 'id',
  effects: 'id',
  dead: 'error',
  rejections: 'error',
  audit: 'target',
};
const STATES: Readonly<Partial<Record<FilteredList, readonly string[]>>> = {
  events: [...EVENT_STATES, 'parked'],
  effects: OUTBOX_STATES,
};
const MAX_LENGTH = 1_000;

/** The query of a list. */
export interface ListView {
  /** The zone of times without an offset in a filter, by its IANA name. @default 'UTC' */
  readonly zone?: string | undefined;
  /** Sources to show; others are left out. @default all */
  readonly visible?: readonly string[] | undefined;
  /** Sources whose payloads may be searched. @default all */
  readonly searchable?: readonly string[] | undefined;
  /** Pairs of source and tenant to show. @default all */
  readonly pairs?: readonly TenantOfSource[] | undefined;
}
/** A source and a tenant of it. */
export interface TenantOfSource {
  readonly source: string;
  readonly tenant: string;
}

/**
 * Suggestions of the page: each list's keys, with the values of each.
 * @param paths `searchPaths` of the sources
 */
export function filterKeys(paths: readonly string[]): Record<FilteredList, Record<string, string>> {
  const hints = (list: FilteredList) =>
    Object.fromEntries(FILTERS[list].map((key) => [key, hintOf(key, list)]));
  return {
    events: { ...hints('events'), ...Object.fromEntries(paths.map((path) => [path, pathHint(path)])) },
    effects: hints('effects'),
    dead: hints('dead'),
    rejections: hints('rejections'),
    audit: hints('audit'),
  };
}

function hintOf(key: Key, list: FilteredList): string {
  const states = key === 'state' ? STATES[list] : undefined;
  return states === undefined ? HINTS[key] : `one of ${states.join(', ')}, or several: state:dead,parked`;
}

/**
 * Reads `source:stripe type:invoice.* state:dead,parked -tenant:acme after:2h`. Quotes hold spaces together. A minus before a key excludes.
 * Commas separate values, and one of them must match.
 * @param zone of times without an offset
 * @param paths of payloads by which events are found: `data.object.customer:cus_9`
 * @throws InputRefused
 */
export function parseFilter(
  text: string,
  list: FilteredList = 'events',
  zone = 'UTC',
  nowMs = Date.now(),
  paths: readonly string[] = [],
): ListFilter {
  if (text.length > MAX_LENGTH) throw new InputRefused(`a filter has at most ${MAX_LENGTH} characters`);
  const tests: Test[] = [];
  const times: { after?: Date; before?: Date } = {};
  for (const word of wordsOf(text)) {
    const payload = list === 'events' ? payloadTest(word, paths) : undefined;
    if (payload !== undefined) {
      tests.push(payload);
      continue;
    }
    const { key, not, value } = keyOf(word, list);
    if (key === 'after' || key === 'before') {
      if (not)
        throw new InputRefused(`-${key}: expected ${key}: without a minus; say ${other(key)}: instead`);
      times[key] = timeOf(key, value, zone, nowMs);
    } else tests.push({ key, not, values: valuesOf(key, value, list) });
  }
  return { tests, ...times };
}

function other(key: 'after' | 'before'): string {
  return key === 'after' ? 'before' : 'after';
}

function wordsOf(text: string): string[] {
  // A quote may stand around a value (type:"a b") or around the whole word.
  return [...text.matchAll(/(?:[^\s"]|"[^"]*")+/g)].map(([word]) => word.replaceAll('"', ''));
}

function keyOf(word: string, list: FilteredList): { key: Key; not: boolean; value: string } {
  const known: readonly Key[] = FILTERS[list];
  const at = word.indexOf(':');
  const not = word.startsWith('-') && at > 1;
  const key = known.find((one) => one === word.slice(not ? 1 : 0, Math.max(at, 0)));
  if (key !== undefined) return { key, not, value: word.slice(at + 1) };
  const plain = DEFAULT_KEY[list];
  const name = word.slice(not ? 1 : 0, Math.max(at, 0));
  // Ids may hold colons themselves: only what looks like a key is taken for one.
  if (!/^[a-z]{1,12}$/.test(name)) return { key: plain, not: false, value: word };
  throw new InputRefused(
    `unknown key '${name}' (to search for this text write ${plain}:"${word}")${didYouMean(name, known)}`,
  );
}

/** Undefined for a word whose key is no path; without paths, ids with dots and colons are ids. */
function payloadTest(word: string, paths: readonly string[]): Test | undefined {
  const [, minus, path, text] = /^(-?)([\w$-]+(?:\.[\w$-]+)+):(.*)$/s.exec(word) ?? [];
  if (path === undefined || paths.length === 0) return undefined;
  if (!paths.includes(path))
    throw new InputRefused(
      `no source has '${path}' among its searchPaths (to search for this text write id:"${word}")${didYouMean(path, paths)}`,
    );
  const values = text!.split(',').filter((one) => one !== '');
  // By its start a value would not be found in the order of the list: each page would read and sort all that begin so.
  if (values.length === 0 || values.some((value) => value.endsWith('*')))
    throw new InputRefused(`${path}: expected a whole value, such as ${path}:cus_9, received '${text}'`);
  return { key: 'payload', path, not: minus === '-', values };
}

function valuesOf(key: Key, value: string, list: FilteredList): string[] {
  // Errors, reasons and ids may hold commas.
  const isText = key === 'error' || key === 'why' || key === 'target' || key === 'id';
  const values = (isText ? [value] : value.split(',')).filter((one) => one !== '');
  if (values.length === 0)
    throw new InputRefused(`${key}: expected ${hintOf(key, list)}, received '${value}'`);
  const wrong = values.find((one) => !isValue(key, one, list));
  if (wrong === undefined) return values;
  const nearest = key === 'state' ? didYouMean(wrong, STATES[list] ?? []) : '';
  throw new InputRefused(`${key}: expected ${hintOf(key, list)}, received '${wrong}'${nearest}`);
}

function isValue(key: Key, value: string, list: FilteredList): boolean {
  if (key === 'state') return (STATES[list] ?? []).includes(value);
  return key !== 'attempts' || /^(?:[<>]=?)?\d{1,9}$/.test(value);
}

function timeOf(key: 'after' | 'before', value: string, zone: string, nowMs: number): Date {
  const ago = /^\d+(?:\.\d+)?[a-z]+$/.test(value) ? toMs(value) : undefined;
  const at = ago === undefined ? instantOf(value, zone) : nowMs - ago;
  // Outside these years PostgreSQL and JavaScript disagree, or nothing was ever received.
  if (Number.isNaN(at) || at < 0 || at > 253_402_300_799_000)
    throw new InputRefused(`${key}: expected ${HINTS[key]}, received '${value}'`);
  return new Date(at);
}
