import { AsyncLocalStorage } from 'node:async_hooks';
import { orAborted } from '../../core/time/waits.js';
import { withoutValues } from '../../core/log/value-free.js';
import { sqlStateOf } from '../../core/classify.js';
import { WebhookInboxError } from '../../core/errors.js';
import { askedQuery, refuse, type AskedQuery, type Way } from './asked-query.js';
import type { PgClient } from './connection.js';
import { queryText } from './query-text.js';
import { controlIn, setsSession } from './transaction-control.js';

/** User code left a query running, used its manager after it had ended, or would have ended its transaction. */
export class ManagerMisused extends WebhookInboxError {
  constructor(message: string) {
    super('MANAGER_MISUSED', message);
  }
}

/** One call of code on the connection: a query is sent only while the call that started it is under way. */
export interface Call {
  /** Of a handler, rather than a statement of ours or of the transaction around it. */
  readonly ofUser: boolean;
  /** The call has ended. Its running queries belong to no call any more. */
  ended?: boolean;
  /** Its own promise has settled, so no code would handle a refusal. Unhandled, it would end the process. */
  settled?: boolean;
  /** A fault elsewhere in the call. The call fails by it, even if it catches the error. */
  fault?: Error;
}

/** The call to which a query belongs. It distinguishes a query left over from an earlier call from the present one. */
const caller = new AsyncLocalStorage<Call>();

/** Whether the calling code is a handler's, inside its transaction. */
export function insideUserCode(): boolean {
  const call = caller.getStore();
  return call?.ofUser === true && call.ended !== true;
}

/** Has the calling handler fail with an error, which it may swallow or wrap. */
export function failCaller(error: Error): Error {
  const call = caller.getStore();
  if (call !== undefined) call.fault ??= error;
  return error;
}

/**
 * Runs code whose queries must not belong to the handler's transaction. They are committed even if the handler fails, and once for each
 * attempt.
 */
export function outsideTransaction<T>(code: () => T): T {
  return caller.exit(code);
}

/**
 * The gate that queries of a user transaction pass on their way to the pg client. TypeORM offers no way to take a manager back. A write
 * that was not awaited would land after the rollback, in the next transaction of the pool's connection. The gate is open for one call at a
 * time.
 */
export class UserGate {
  /** How many queries of the present call have no answer yet. */
  running = 0;
  /** Whether one of them has been sent. The others wait for their turn. */
  isBusy = false;
  /** A fault of a call that succeeded all the same. Such a transaction is not committed. */
  misuse: string | undefined;
  /** A call has changed a setting that outlives the transaction. */
  changesSession = false;
  /** The last query that the server has refused for what it is. */
  private refused: { readonly query: unknown; readonly error: unknown } | undefined;
  private call: Call | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private readonly failed = new Set<Call>();
  /** Given up on: that they go on is no fault of theirs. */
  private readonly givenUp = new Set<Call>();

  constructor(
    private readonly way: Pick<Way, 'send' | 'begin' | 'pass'>,
    private readonly onMisuse: (detail: string) => void,
    /** Open between the calls, for queries of TypeORM and subscribers in a transaction of theirs. */
    private around?: Call,
  ) {
    this.call = around;
  }

  /** Runs code whose queries belong to that call. */
  static runAs<T>(call: Call, code: () => Promise<T>): Promise<T> {
    return caller.run(call, code);
  }

  /** Runs the code of a call, for which it is open until `close`. */
  run<T>(call: Call, code: () => Promise<T> | T, signal?: AbortSignal): Promise<T> {
    this.call = call;
    return caller.run(call, () => {
      const running = Promise.resolve().then(code);
      const settle = () => {
        call.settled = true;
      };
      running.then(settle, settle);
      return signal === undefined ? running : orAborted(running, signal);
    });
  }

  /** @param isGivenUp whether no code waits for its end any more */
  fail(call: Call, isGivenUp: boolean): void {
    this.failed.add(call);
    if (isGivenUp) this.givenUp.add(call);
  }

  /** Whether the server has refused a query for what it is. */
  get hasRefused(): boolean {
    return this.refused !== undefined;
  }

  /** The error text for a failed transaction whose code has not failed. */
  get swallowed(): string {
    const { query, error } = this.refused ?? {};
    const which =
      this.refused && `: ${textOf(query)}: ${error instanceof Error ? withoutValues(error) : String(error)}`;
    return `a query failed and its error was swallowed${which ?? ''}; ${THROW_ON}`;
  }

  close(call: Call): void {
    call.ended = true;
    this.call = this.around;
  }

  /** Nothing is sent any more. */
  end(): void {
    this.around = undefined;
    this.call = undefined;
  }

  /** When all that was sent or waits has been answered. */
  async idle(): Promise<void> {
    while (this.running > 0) await this.last;
  }

  /** In the place of the client's `query`. */
  readonly query = (...args: Parameters<PgClient['query']>): unknown => {
    const call = this.call;
    const from = caller.getStore();
    const asked = askedQuery(args);
    // Without a caller (a library that lost its context) the gate alone decides, while user code runs.
    if (call === undefined || (from !== call && !(from === undefined && call.ofUser))) {
      this.refuse(from, asked);
      return asked.returned;
    }
    const text = call.ofUser ? textIn(args) : undefined;
    const control = text && controlIn(text.sql, text.single);
    this.changesSession ||= text !== undefined && setsSession(text.sql, text.single);
    if (control === undefined) this.sendInTurn(call, asked);
    else if (refuse(asked.query, controlRefusal(control))) this.sendInTurn(call, asked);
    else asked.fail(controlRefusal(control));
    return asked.returned;
  };

  /** One at a time: pg warns of a second one at once, and its next major version refuses it. */
  private sendInTurn(call: Call, asked: AskedQuery): void {
    let counts = true;
    this.running += 1;
    const ended = () => {
      if (counts) this.running -= 1;
      counts = false;
    };
    const sent = this.last.then(() => this.send(call, asked, ended));
    this.last = sent;
    void sent.then((tell) => {
      ended();
      // Once no code waits for it, an error without a catch would end the process.
      if (call.settled !== true) tell();
    });
  }

  /** @returns a function that answers the code; a query that waited for longer than its call is not sent */
  private async send(call: Call, asked: AskedQuery, ended: () => void): Promise<() => void> {
    if (this.call !== call) return () => asked.fail(tooLate());
    this.isBusy = true;
    const failed = (error: unknown) => this.keep(asked.query, error);
    try {
      const result = await asked.send({ ...this.way, ended, failed });
      return () => asked.answer(result);
    } catch (error) {
      failed(error);
      return () => asked.fail(error);
    } finally {
      this.isBusy = false;
    }
  }

  private keep(query: unknown, error: unknown): void {
    // Of the queries behind one that failed, the server says only that one has.
    if (sqlStateOf(error) !== '25P02') this.refused = { query, error };
  }

  private refuse(from: Call | undefined, asked: AskedQuery): void {
    if (from === undefined || !this.givenUp.has(from)) {
      const detail = `a query was started after its code had ended and was not sent: ${textOf(asked.query)}; ${REMEDY}`;
      this.onMisuse(detail);
      // Queries that a failed call leaves behind are rolled back with it.
      if (from === undefined || !this.failed.has(from)) this.misuse ??= detail;
    }
    if (from !== undefined && from.settled !== true) asked.fail(tooLate());
  }
}

/** In a string, in pg's query objects, and in a cursor inside a stream. `single`: it has values, and so one statement. */
function textIn([query, values]: readonly unknown[]): { sql: string; single: boolean } | undefined {
  const {
    text,
    values: own,
    cursor,
  } = Object(query) as { text?: unknown; values?: unknown; cursor?: unknown };
  if (cursor !== undefined) return textIn([cursor]);
  const sql = typeof query === 'string' ? query : text;
  const all = Array.isArray(values) ? values : own;
  return typeof sql === 'string' ? { sql, single: Array.isArray(all) && all.length > 0 } : undefined;
}

const controlRefusal = (control: string) =>
  new ManagerMisused(
    `'${queryText(control)}' was not sent: a handler does not begin or end its transaction, and sets nothing for its session. ` +
      `Throw to roll back, use manager.transaction() for a savepoint, and SET LOCAL for a setting`,
  );

export const REMEDY =
  'await every call on the manager and every enqueue, manager.transaction() and Promise.all() included';

const THROW_ON =
  'the run cannot commit: throw the error again, or run a query that may fail in manager.transaction(), which is a savepoint';

function textOf(query: unknown): string {
  if (typeof query !== 'string') return 'a query object';
  return query.includes('webhook_outbox') ? 'an enqueue' : queryText(query);
}

const tooLate = () =>
  new ManagerMisused(
    'the query was not sent: the transaction of this manager has ended, by its timeout or with its code. ' +
      'Stop when `signal` fires, and await every query',
  );
