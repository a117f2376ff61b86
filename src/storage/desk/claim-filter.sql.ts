import { PENDING_ROWS } from '../pending.sql.js';
import {
  conditionsOf,
  numberIs,
  textHas,
  textIs,
  type Asked,
  type ListFilter,
  type Parameters,
  type Test,
} from './filter.sql.js';

/**
 * Conditions on a claim `w`, and a join that keeps the claims whose state is right. OFFSET 0: states are derived one by one, in the
 * order of the walk, and no further than the page needs.
 */
export function matches(filter: ListFilter, p: Parameters): { hits: string; state: string } {
  const { tests, visible } = filter;
  const columns = {
    source: textIs('w.source'),
    tenant: textIs('w.tenant'),
    type: textIs('w.event_type'),
    id: (values: readonly string[], to: Parameters) =>
      `(${textIs('w.event_id')(values, to)} OR ${textIs('w.id::text')(values, to)})`,
  };
  const at = { time: 'w.received_at', source: 'w.source' };
  const asked = conditionsOf({ tests, ...(visible ? { visible } : {}) }, columns, at, p);
  const values = tests.filter(({ key }) => key === 'payload').map((test) => valueTest(test, p));
  const states = tests.filter(({ key }) => key === 'state').map((test) => stateTest(test, p));
  return {
    hits: [...asked, ...rowTests(tests, p), ...values].join(' AND '),
    state:
      states.length === 0
        ? ''
        : `CROSS JOIN LATERAL (SELECT FROM webhook_event e WHERE e.id = w.id AND ${states.join(' AND ')} OFFSET 0) s`,
  };
}

export function timesOf({ after, before }: ListFilter, p: Parameters): string {
  const times = { tests: [], ...(after ? { after } : {}), ...(before ? { before } : {}) };
  return conditionsOf(times, {}, { time: 'w.received_at', source: 'w.source' }, p).join(' AND ');
}

const ROW_KEYS = ['handler', 'effect', 'error', 'attempts'];
/** The columns by which lists of rows are filtered. The rows are called `o`. */
export const ROW_COLUMNS: Readonly<Record<string, Asked>> = {
  handler: (values, p) => `(o.kind = 'handler' AND ${textIs('o.name')(values, p)})`,
  effect: (values, p) => `(o.kind = 'effect' AND ${textIs('o.name')(values, p)})`,
  error: textHas('o.error'),
  reason: textIs('o.reason'),
  attempts: numberIs('o.attempt'),
  state: textIs('o.state'),
  source: textIs('o.source'),
  tenant: textIs('o.tenant'),
  id: (values, p) => `(${textIs('o.event_id')(values, p)} OR ${textIs('o.id::text')(values, p)})`,
};

/** Tests of an event's rows: one row meets all required tests, and no row meets an excluded one. */
function rowTests(tests: readonly Test[], p: Parameters): string[] {
  const asked = tests.filter(({ key }) => ROW_KEYS.includes(key));
  const must = asked.filter(({ not }) => !not);
  const mustNot = asked
    .filter(({ not }) => not)
    .map((test) => `NOT ${someRow([{ ...test, not: false }], p)}`);
  return must.length === 0 ? mustNot : [someRow(must, p), ...mustNot];
}

/** OFFSET 0: looked up for each claim, and never joined with the whole table. */
function someRow(tests: readonly Test[], p: Parameters): string {
  const where = conditionsOf({ tests }, ROW_COLUMNS, { time: '', source: '' }, p).join(' AND ');
  return `EXISTS (SELECT FROM webhook_outbox o WHERE o.id = ANY (webhook_rows_of(w.source, w.tenant, w.event_id)) AND ${where} OFFSET 0)`;
}

const RARE = ['dead', 'parked', 'pending'] as const;
export type RareState = (typeof RARE)[number];

/** The states asked for, when few rows are in each of them. */
export function rareStates({ tests }: ListFilter): readonly RareState[] | undefined {
  const asked = tests.find(({ key, not }) => key === 'state' && !not);
  const rare = RARE.filter((one) => asked?.values.includes(one));
  return asked !== undefined && rare.length === new Set(asked.values).size ? rare : undefined;
}

/** Rows in a state that few are in, as the partial indexes have them. A literal, since a generic plan for a parameter cannot use them. */
export function rowsIn(state: RareState): string {
  return state === 'pending'
    ? `(${PENDING_ROWS}) owed`
    : `(SELECT * FROM webhook_outbox WHERE state = '${state}') owed`;
}

function stateTest({ values, not }: Test, p: Parameters): string {
  return `${not ? 'NOT ' : ''}(${values.map((value) => stateIs(value, p)).join(' OR ')})`;
}

/** An event with a dead effect is found under `dead`, although its handlers are done. */
function stateIs(state: string, p: Parameters): string {
  if (state === 'parked') return 'e.effects_parked > 0';
  return state === 'dead' ? `(e.state = 'dead' OR e.effects_dead > 0)` : `e.state = ${p.add(state)}`;
}

/** OFFSET 0: looked up for each claim. */
function valueTest({ path, values, not }: Test, p: Parameters): string {
  return `${not ? 'NOT ' : ''}EXISTS (SELECT FROM webhook_payload_value v
    WHERE v.claim_id = w.id AND v.path = ${p.add(path)} AND v.value = ANY(${p.add(values)}::text[]) OFFSET 0)`;
}
