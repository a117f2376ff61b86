import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';

/** A cursor, a stream or a Query of pg. pg calls `submit` when its turn has come, and takes the returned value for the query's failure. */
interface Submittable {
  submit(connection: unknown): Error | null | undefined;
  callback?: Callback;
}

type Callback = (error: unknown, result?: unknown) => void;

/** How a query that has its turn is sent. */
export interface Way {
  /** Sends text or a query's settings, within the transaction; gives the result. */
  readonly send: (query: unknown, values?: unknown) => Promise<unknown>;
  /** Begins the transaction where nothing has. */
  readonly begin: () => Promise<void>;
  /** The client's own method. */
  readonly pass: (query: object) => unknown;
  /** Called at the end of an object before its own listeners. */
  readonly ended: () => void;
  readonly failed: (error: unknown) => void;
}

/**
 * A query as code asks it of a pg client: with a promise, with a callback, or as an object that pg calls. All of them can wait for
 * their turn: pg refuses a second query on a connection while the first one runs.
 */
export interface AskedQuery {
  /** Text or object, as it was given. */
  readonly query: unknown;
  /** For the code that asks, at once. */
  readonly returned: unknown;
  /** Sends it, and ends with its end. */
  send(way: Way): Promise<unknown>;
  answer(result: unknown): void;
  fail(error: unknown): void;
}

export function askedQuery(args: readonly unknown[]): AskedQuery {
  const [query, values] = args;
  if (isSubmittable(query)) return submitted(query, callbackIn(args));
  const given = Object(query) as { readonly callback?: unknown };
  const own = typeof query === 'object' && isCallback(given.callback) ? given.callback : undefined;
  const callback = callbackIn(args) ?? own;
  // Only without a callback does pg give back a promise.
  const plain = own === undefined ? query : (Object.create(given, { callback: {} }) as object);
  const send: AskedQuery['send'] = (way) => way.send(plain, isCallback(values) ? undefined : values);
  return callback === undefined ? promised(query, send) : calledBack(query, send, callback);
}

function promised(query: unknown, send: AskedQuery['send']): AskedQuery {
  const { promise, resolve, reject } = withResolvers();
  return { query, returned: promise, send, answer: resolve, fail: reject };
}

function calledBack(query: unknown, send: AskedQuery['send'], callback: Callback): AskedQuery {
  // An error of a callback is the caller's own, as it is in pg.
  const tell: Callback = (error, result) => process.nextTick(callback, error, result);
  return { query, returned: undefined, send, answer: (result) => tell(null, result), fail: tell };
}

/** It reports its end itself. */
function submitted(query: Submittable, callback: Callback | undefined): AskedQuery {
  const send: AskedQuery['send'] = async (way) => {
    // pg has it fail where the transaction could not be begun.
    await way.begin().catch((error: unknown) => refuse(query, error));
    const end = endOf(query, callback, way);
    way.pass(query);
    await end;
  };
  const fail = (error: unknown) => void setImmediate(failUnsent, query, callback, error);
  return { query, returned: query, send, answer: () => undefined, fail };
}

/** Only with a listener: an 'error' event without one ends the process. */
function failUnsent(query: Submittable, given: Callback | undefined, error: unknown): void {
  const callback = isCallback(query.callback) ? query.callback : given;
  if (callback !== undefined) callback(error);
  else if (query instanceof Readable && query.listenerCount('error') > 0) query.destroy(error as Error);
  else if (query instanceof EventEmitter && query.listenerCount('error') > 0) query.emit('error', error);
}

/** Has pg fail an object when its turn comes. */
export function refuse(query: unknown, error: unknown): boolean {
  if (!isSubmittable(query)) return false;
  Object.assign(query, { submit: () => error });
  return true;
}

/** pg reports a failure to the callback alone, where there is one. */
function endOf(query: Submittable, given: Callback | undefined, { ended, failed }: Way): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      ended();
      resolve();
    };
    const fail = (error: unknown) => {
      failed(error);
      end();
    };
    const callback = isCallback(query.callback) ? query.callback : given;
    if (callback !== undefined) {
      query.callback = (error, result) => {
        if (error === null || error === undefined) end();
        else fail(error);
        callback(error, result);
      };
    }
    if (query instanceof EventEmitter) {
      query.once('error', fail);
      for (const event of ['end', 'close']) query.once(event, end);
    } else if (callback === undefined) end();
  });
}

function isSubmittable(query: unknown): query is Submittable {
  return (
    typeof query === 'object' && query !== null && 'submit' in query && typeof query.submit === 'function'
  );
}

function isCallback(value: unknown): value is Callback {
  return typeof value === 'function';
}

function callbackIn(args: readonly unknown[]): Callback | undefined {
  return args.slice(1).findLast(isCallback);
}

function withResolvers() {
  let resolve!: (value: unknown) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<unknown>((resolved, rejected) => {
    resolve = resolved;
    reject = rejected;
  });
  return { promise, resolve, reject };
}
