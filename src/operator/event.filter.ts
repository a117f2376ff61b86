import { didYouMean } from '../core/did-you-mean.js';
import { toMs } from '../core/duration.js';
import { InputRefused } from '../core/errors.js';
import { EVENT_STATES } from '../core/states.js';
import type { EventFilter } from '../storage/search.store.js';

/** The filter language, as the page suggests it. */
export const FILTER_KEYS = {
  source: 'a source: source:stripe, or several: source:stripe,github',
  type: 'a type, or the start of one: type:invoice.paid, type:invoice.*',
  state: `one of ${EVENT_STATES.join(', ')}, parked`,
  id: 'an event id, or an id of ours: id:evt_1',
  tenant: 'a tenant: tenant:acme',
  after: 'received since: after:2h, after:2026-08-01, after:2026-08-01T09:00Z',
  before: 'received until: before:30m, before:2026-08-01',
} as const;
type Key = keyof typeof FILTER_KEYS;

const STATES: readonly string[] = [...EVENT_STATES, 'parked'];
const MAX_LENGTH = 1_000;

/**
 * Reads `source:stripe type:invoice.* state:dead after:2h`. A word without a key is an id; quotes hold spaces together.
 * @throws InputRefused
 */
export function parseFilter(text: string, nowMs = Date.now()): EventFilter {
  if (text.length > MAX_LENGTH) throw new InputRefused(`a filter has at most ${MAX_LENGTH} characters`);
  const filter: { -readonly [K in keyof EventFilter]: EventFilter[K] } = {};
  for (const word of wordsOf(text)) {
    const [key, value] = keyOf(word);
    if (value === '') throw new InputRefused(`${key}: expected ${FILTER_KEYS[key]}`);
    if (key === 'source') filter.sources = value.split(',').filter((one) => one !== '');
    else if (key === 'state') filter.state = stateOf(value);
    else if (key === 'after' || key === 'before') filter[key] = timeOf(key, value, nowMs);
    else filter[key] = value;
  }
  return filter;
}

function wordsOf(text: string): string[] {
  // A quote may stand around a value (type:"a b") or around the whole word.
  return [...text.matchAll(/(?:[^\s"]|"[^"]*")+/g)].map(([word]) => word.replaceAll('"', ''));
}

function keyOf(word: string): [Key, string] {
  const at = word.indexOf(':');
  const key = word.slice(0, Math.max(at, 0));
  if (Object.hasOwn(FILTER_KEYS, key)) return [key as Key, word.slice(at + 1)];
  // Ids may hold colons themselves: only what looks like a key is taken for one.
  if (at < 1 || !/^[a-z]{1,12}$/.test(key)) return ['id', word];
  const known = Object.keys(FILTER_KEYS);
  throw new InputRefused(
    `unknown key '${key}' (for an id with a colon write id:${word})${didYouMean(key, known)}`,
  );
}

function stateOf(value: string): EventFilter['state'] {
  if (STATES.includes(value)) return value as EventFilter['state'];
  throw new InputRefused(
    `state: expected ${FILTER_KEYS.state}, received '${value}'${didYouMean(value, STATES)}`,
  );
}

function timeOf(key: Key, value: string, nowMs: number): Date {
  const ago = /^\d+(?:\.\d+)?[a-z]+$/.test(value) ? toMs(value) : undefined;
  const at = ago === undefined ? Date.parse(value) : nowMs - ago;
  // Outside these years PostgreSQL and JavaScript disagree, or nothing was ever received.
  if (Number.isNaN(at) || at < 0 || at > 253_402_300_799_000)
    throw new InputRefused(`${key}: expected ${FILTER_KEYS[key]}, received '${value}'`);
  return new Date(at);
}
