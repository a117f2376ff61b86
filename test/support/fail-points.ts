import { Client } from 'pg';
import { DeliveryVerifier } from '../../src/inbox/delivery.verifier.js';
import { EventDispatcher } from '../../src/inbox/event.dispatcher.js';
import { DUPLICATES } from '../../src/storage/claim.sql.js';
import { CLAIM, CLAIM_ONE, CLAIM_SIGNED } from '../../src/storage/new-claim.js';
import { OneMessage } from '../../src/storage/postgres/message-query.js';
import {
  BEGIN_EFFECT,
  LEASE_ALONE,
  LEASE_EVENT,
  leaseDue,
  RELEASE,
  RENEW,
} from '../../src/storage/outbox.sql.js';
import { ENQUEUE } from '../../src/storage/effect.store.js';
import {
  FAIL,
  KEEP_RESULT,
  SETTLE,
  SETTLE_MANY,
  SETTLE_OR_FAIL,
  SETTLE_WITH_RESULT,
  SETTLE_WITH_RESULT_OR_FAIL,
} from '../../src/storage/settle.sql.js';

/** Statements that are fail points wherever they are sent from. */
const STATEMENTS: Readonly<Record<string, string>> = {
  claim: CLAIM,
  duplicate: DUPLICATES,
  lease: leaseDue(1),
  'lease of a row alone': LEASE_ALONE,
  'lease of a redelivery': LEASE_EVENT,
  enqueue: ENQUEUE,
  failure: FAIL,
  'begin of an effect': BEGIN_EFFECT,
  'result of an effect': KEEP_RESULT,
  renewal: RENEW,
  release: RELEASE,
  'settle of a batch': SETTLE_MANY,
};
const NAME_OF = new Map(Object.entries(STATEMENTS).map(([name, sql]) => [sql, name]));
for (const limit of [100, 1_000]) NAME_OF.set(leaseDue(limit), 'lease');
for (const sql of [CLAIM_ONE, CLAIM_SIGNED]) NAME_OF.set(sql, 'claim');
const SETTLES = new Set([SETTLE, SETTLE_OR_FAIL, SETTLE_WITH_RESULT, SETTLE_WITH_RESULT_OR_FAIL]);

/** Places on the way of a webhook; each can be hit before and after what it names. */
export const POINTS = [
  'verification',
  'dispatch',
  ...Object.keys(STATEMENTS),
  'settle of a handler',
  'settle of an effect',
  'begin of a claim',
  'begin of a run',
  'commit of a claim',
  'commit of an inline claim',
  'commit of a handler',
  'commit of a completion',
  'business record',
  'call of an effect',
] as const;
export type Point = string;
export type When = 'before' | 'after';

/** What a fail point can do where it stands. */
export const FAULTS = ['throw', 'cut', '40001', '40P01', '57014', '25006', 'stall'] as const;
export type Fault = (typeof FAULTS)[number];

/** Told at each passing of a point; what it returns happens there. */
export type OnPoint = (point: Point, when: When) => Fault | undefined;

let onPoint: OnPoint | undefined;
let stallMs = 1_000;
let installed = false;

/**
 * Puts fail points on the way of a webhook: around the statements, in the pg client, and around methods. They are put there from
 * outside, so that the package itself has none.
 * @param stall how long `stall` holds: longer than a lease
 */
export function installFailPoints(hook: OnPoint, stall = 1_000): void {
  onPoint = hook;
  stallMs = stall;
  if (installed) return;
  installed = true;
  wrapQueries();
  wrapMethod(DeliveryVerifier.prototype, 'verify', 'verification');
  wrapMethod(EventDispatcher.prototype, 'dispatch', 'dispatch');
  wrapMethod(EventDispatcher.prototype, 'dispatchRoute', 'dispatch');
}

/** Nothing is told any more, and nothing fails. */
export function removeFailPoints(): void {
  onPoint = undefined;
}

/** A fail point in a test's own code, around what is outside of the package: a handler's write, an effect's call. */
export async function passing<T>(point: Point, work: () => Promise<T>): Promise<T> {
  await inCode(onPoint?.(point, 'before'));
  const result = await work();
  await inCode(onPoint?.(point, 'after'));
  return result;
}

type Query = (this: Client, ...args: unknown[]) => Promise<unknown>;

/** Where a connection is: which points its transaction has passed. */
const inTransaction = new WeakMap<Client, Set<Point>>();
/** Effects with a completion, by their outbox ids: their settle is in its transaction. */
const completed = new Set<unknown>();

function wrapQueries(): void {
  const original = Reflect.get(Client.prototype, 'query') as Query;
  const wrapped: Query = function (this: Client, ...args: unknown[]) {
    const [query, values] = args;
    const send = () => original.apply(this, args);
    if (onPoint === undefined) return send();
    const sendOther = (sql: string) => original.call(this, sql);
    if (query instanceof OneMessage) return aroundMessage(this, query, send, sendOther);
    const { text, values: own } = typeof query === 'string' ? { text: query, values } : settingsOf(query);
    if (typeof text !== 'string' || typeof args.at(-1) === 'function') return send();
    const point = pointOf(this, text, own as unknown[] | undefined);
    return point === undefined ? send() : around(this, [point], send, sendOther);
  };
  Client.prototype.query = wrapped as unknown as Client['query'];
}

const settingsOf = (query: unknown) =>
  Object(query) as { readonly text?: unknown; readonly values?: unknown };

function pointOf(client: Client, sent: string, [id]: unknown[] = []): Point | undefined {
  // As the stores have it, without the schema of the tables.
  const text = sent.replaceAll('"public".', '');
  if (/^(START TRANSACTION|BEGIN)/.test(text)) inTransaction.set(client, new Set());
  const seen = inTransaction.get(client);
  const begun = beginOf(text);
  if (begun !== undefined) {
    seen?.add(begun);
    return begun;
  }
  if (text === 'COMMIT' || text === 'ROLLBACK') {
    inTransaction.delete(client);
    return text === 'COMMIT' ? commitOf(seen) : undefined;
  }
  // Effects that end together are settled together, outside of any transaction; a batch of handlers within its own.
  const isSettle = SETTLES.has(text) || (text === SETTLE_MANY && seen === undefined);
  const name = isSettle ? settleOf(seen, id) : NAME_OF.get(text);
  if (name === 'result of an effect') completed.add(id);
  if (name !== undefined) seen?.add(name);
  return name;
}

function beginOf(text: string): Point | undefined {
  if (text.includes('SET LOCAL statement_timeout')) return 'begin of a run';
  return text.includes('SET LOCAL lock_timeout') ? 'begin of a claim' : undefined;
}

function settleOf(seen: Set<Point> | undefined, id: unknown): Point {
  return seen === undefined || completed.has(id) ? 'settle of an effect' : 'settle of a handler';
}

function commitOf(seen: Set<Point> | undefined): Point | undefined {
  if (seen === undefined) return undefined;
  if (seen.has('claim'))
    return seen.has('begin of a run') ? 'commit of an inline claim' : 'commit of a claim';
  if (seen.has('settle of an effect')) return 'commit of a completion';
  return seen.has('settle of a handler') || seen.has('settle of a batch') ? 'commit of a handler' : undefined;
}

/** A message tells of its end by its callback: what is planted before it keeps it from being sent, what is planted behind from being told. */
async function aroundMessage(
  client: Client,
  message: OneMessage,
  send: () => unknown,
  sendOther: (sql: string) => Promise<unknown>,
): Promise<unknown> {
  const told = message as unknown as { callback: (error: unknown, results?: unknown) => void };
  const done = told.callback;
  const points = [...message.statements, ...(message.query === undefined ? [] : [message.query])]
    .map(({ sql, values }) => pointOf(client, sql, values as unknown[] | undefined))
    .filter((point) => point !== undefined);
  const answered = () =>
    new Promise((resolve, reject) => {
      told.callback = (error, results) => (error ? reject(error) : resolve(results));
      send();
    });
  return around(client, points, answered, sendOther).then(
    (results) => done.call(message, null, results),
    (error: unknown) => done.call(message, error),
  );
}

async function around(
  client: Client,
  points: readonly Point[],
  send: () => Promise<unknown>,
  sendOther: (sql: string) => Promise<unknown>,
): Promise<unknown> {
  for (const point of points) await onConnection(client, onPoint?.(point, 'before'), sendOther);
  const result = await send();
  for (const point of points) await onConnection(client, onPoint?.(point, 'after'), sendOther);
  return result;
}

async function onConnection(
  client: Client,
  fault: Fault | undefined,
  send: (sql: string) => Promise<unknown>,
): Promise<void> {
  if (fault === undefined || fault === 'throw' || fault === 'stall') return inCode(fault);
  if (fault === 'cut') {
    // The socket, not the client: whoever uses it has to find out.
    socketOf(client).destroy();
    throw new Error('Connection terminated unexpectedly');
  }
  // From the server itself, so that the transaction is really lost.
  await send(`DO $$ BEGIN RAISE EXCEPTION 'a planted fault' USING ERRCODE = '${fault}'; END $$`);
}

async function inCode(fault: Fault | undefined): Promise<void> {
  if (fault === undefined) return;
  if (fault === 'stall') return new Promise((resolve) => setTimeout(resolve, stallMs));
  throw Object.assign(new Error('a planted fault'), /^\d/.test(fault) ? { code: fault } : {});
}

function socketOf(client: Client): { destroy(): void } {
  return (client as Client & { readonly connection: { readonly stream: { destroy(): void } } }).connection
    .stream;
}

function wrapMethod<T extends object>(prototype: T, name: keyof T & string, point: Point): void {
  const original = prototype[name] as (...args: unknown[]) => unknown;
  Object.assign(prototype, {
    async [name](this: T, ...args: unknown[]) {
      return passing(point, async () => original.apply(this, args));
    },
  });
}
