import { AsyncLocalStorage } from 'node:async_hooks';
import { EventEmitter } from 'node:events';
import { withoutValues } from '../core/value-free.js';
import { sqlStateOf } from '../core/classify.js';
import { WebhookInboxError } from '../core/errors.js';
import type { PgClient } from './connection.js';
import type { LazyBegin } from './lazy.begin.js';
import { queryText } from './query.text.js';
import { controlIn } from './transaction.control.js';

/** User code left a query running, used its manager after it had ended, or would have ended its transaction. */
export class ManagerMisused extends WebhookInboxError {
  constructor(message: string) {
    super('MANAGER_MISUSED', message);
  }
}

/** One call of code on the connection: a query is sent only while the call that started it is under way. */
export interface Call {
  /** Of user code, rather than a statement of ours. */
  readonly ofUser: boolean;
  /** Over: what it left running is nobody's any more. */
  ended?: boolean;
}

/** Which call a query belongs to, so that one left over from an earlier call is told from the present one. */
const caller = new AsyncLocalStorage<Call>();

/** Whether the calling code is a handler's, inside its transaction. */
export function insideUserCode(): boolean {
  const call = caller.getStore();
  return call?.ofUser === true && call.ended !== true;
}

/**
 * Runs code whose queries are meant not to belong to the handler's transaction: they are committed whatever becomes of it, and once
 * for each attempt.
 */
export function outsideTransaction<T>(code: () => T): T {
  return caller.exit(code);
}

/**
 * What a query of a user transaction passes on its way to the pg client: TypeORM offers no way to take a manager back, and a write that
 * was not awaited would land after the rollback, in the next transaction of the pool's connection. It is open for one call at a time.
 */
export class UserGate {
  /** How many queries of the present call have no answer yet. */
  running = 0;
  /** What a call did that has succeeded all the same; such a transaction is not committed. */
  misuse: string | undefined;
  /** The last query that the server has refused for what it is. */
  private refused: { readonly query: unknown; readonly error: unknown } | undefined;
  private call: Call | undefined;
  private readonly failed = new Set<Call>();
  /** Given up on: that they go on is no fault of theirs. */
  private readonly givenUp = new Set<Call>();

  constructor(
    private readonly lazy: LazyBegin,
    private readonly onMisuse: (detail: string) => void,
  ) {}

  /** Runs the code of a call, for which it is open until `close`. */
  run<T>(call: Call, code: () => Promise<T>): Promise<T> {
    this.call = call;
    return caller.run(call, code);
  }

  /** @param isGivenUp nobody waits for its end any more */
  hasFailed(call: Call, isGivenUp: boolean): void {
    this.failed.add(call);
    if (isGivenUp) this.givenUp.add(call);
  }

  /** What is to be said where the transaction has failed and its code has not. */
  get swallowed(): string {
    const { query, error } = this.refused ?? {};
    const which =
      this.refused && `: ${textOf(query)}: ${error instanceof Error ? withoutValues(error) : String(error)}`;
    return `a query failed and its error was swallowed${which ?? ''}; ${THROW_ON}`;
  }

  close(call: Call): void {
    call.ended = true;
    this.call = undefined;
  }

  /** In the place of the client's `query`. */
  readonly query = (...args: Parameters<PgClient['query']>): unknown => {
    const call = this.call;
    const from = caller.getStore();
    // Without a caller (a library that lost its context) the gate alone decides, while user code runs.
    if (call === undefined || (from !== call && !(from === undefined && call.ofUser))) {
      return this.refuse(from, args[0]);
    }
    const control = call.ofUser ? controlOf(args) : undefined;
    if (control !== undefined && !refuseSubmittable(args[0], control)) return refused(control, args);
    const sent = this.lazy.send(...args);
    if (!(sent instanceof Promise)) return this.counted(sent, args[0]);
    this.running += 1;
    // Once the gate has closed, nobody is there to catch a failure: it would end the process as an unhandled rejection.
    return new Promise((resolve, reject) => {
      sent.then(
        (result) => {
          this.running -= 1;
          if (this.call === call) resolve(result);
        },
        (error: unknown) => {
          this.running -= 1;
          this.keep(args[0], error);
          if (this.call === call) reject(error);
        },
      );
    });
  };

  /** A stream or a pg Query object: it runs until it says so. */
  private counted(sent: unknown, query: unknown): unknown {
    if (!(sent instanceof EventEmitter)) return sent;
    let running = true;
    this.running += 1;
    const ended = () => {
      if (running) this.running -= 1;
      running = false;
    };
    for (const event of ['end', 'error', 'close']) sent.once(event, ended);
    sent.once('error', (error: unknown) => this.keep(query, error));
    return sent;
  }

  private keep(query: unknown, error: unknown): void {
    // Of the queries behind one that failed, the server says only that one has.
    if (sqlStateOf(error) !== '25P02') this.refused = { query, error };
  }

  private refuse(from: Call | undefined, query: unknown): unknown {
    if (from === undefined || !this.givenUp.has(from)) {
      const detail = `a query was started after the handler had ended and was not sent: ${textOf(query)}; ${REMEDY}`;
      this.onMisuse(detail);
      // What a call that has failed leaves behind is rolled back with it.
      if (from === undefined || !this.failed.has(from)) this.misuse ??= detail;
    }
    // A stream that is never sent never yields.
    return query instanceof EventEmitter ? query : never();
  }
}

/** In a string, in pg's query objects, and in a cursor inside a stream. */
function controlOf([query, values]: readonly unknown[]): string | undefined {
  const {
    text,
    values: own,
    cursor,
  } = Object(query) as { text?: unknown; values?: unknown; cursor?: unknown };
  if (cursor !== undefined) return controlOf([cursor]);
  const sql = typeof query === 'string' ? query : text;
  const all = Array.isArray(values) ? values : own;
  return typeof sql === 'string' ? controlIn(sql, Array.isArray(all) && all.length > 0) : undefined;
}

/** pg asks a query object to send itself when its turn has come; what that returns is its failure. */
function refuseSubmittable(query: unknown, control: string): boolean {
  if (typeof query !== 'object' || query === null || !('submit' in query)) return false;
  Object.assign(query, { submit: () => controlRefusal(control) });
  return true;
}

function refused(control: string, args: readonly unknown[]): Promise<never> | undefined {
  const error = controlRefusal(control);
  const callback = args.findLast((one) => typeof one === 'function');
  if (callback === undefined) return Promise.reject(error);
  process.nextTick(callback, error);
  return undefined;
}

const controlRefusal = (control: string) =>
  new ManagerMisused(
    `'${queryText(control)}' was not sent: a handler does not begin or end its transaction, and sets nothing for its session. ` +
      `Throw to roll back, use manager.transaction() for a savepoint, and SET LOCAL for a setting`,
  );

export const REMEDY =
  'await every call on the manager and every enqueue, manager.transaction() and Promise.all() included';

const THROW_ON =
  'nothing of the run can be committed: throw it on, or run what may fail in manager.transaction(), which is a savepoint';

function textOf(query: unknown): string {
  if (typeof query !== 'string') return 'a query object';
  return query.includes('webhook_outbox') ? 'an enqueue' : queryText(query);
}

/** A promise that never settles and is collected with whoever waits for it. */
function never(): Promise<never> {
  return new Promise<never>(() => undefined);
}
