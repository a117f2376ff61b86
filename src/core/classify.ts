import { PermanentError, RetryAfter, WebhookInboxError } from './errors.js';

/** Whether trying again can help, and how long to wait at least. */
export type Failure =
  { readonly kind: 'transient'; readonly delayMs?: number } | { readonly kind: 'permanent' };

/** Overrides the classification of one error; undefined leaves it to the default. */
export type Classifier = (error: unknown) => 'transient' | 'permanent' | undefined;

/** Request time-out, too many requests: the only 4xx that a second try can cure. */
const TRANSIENT_STATUS = new Set([408, 429]);
const PERMANENT_CODES = new Set([
  'CONFIGURATION',
  'EFFECT_KEY_REQUIRED',
  'UNKNOWN_EFFECT',
  'PAYLOAD_REFUSED',
  'ENQUEUE_REFUSED',
  // Writes outside of the transaction stay, and another attempt would repeat them.
  'OUTSIDE_TRANSACTION',
]);
/** Connection, transaction rollback (deadlock, serialization), resources, operator intervention. */
const TRANSIENT_SQLSTATE = new Set(['08', '40', '53', '57']);
const LOST_STATEMENT = new Set(['26000', '42P05', '0A000']);
/** Data exception, integrity constraint: the same input fails again. */
const PERMANENT_SQLSTATE = new Set(['22', '23']);

/**
 * Classifies what a handler or an effect threw. Unknown errors are transient: a retry is cheap, a lost event is not.
 * HTTP errors are recognised by `status`, `statusCode` or `response.status`, database errors by `code` or `driverError.code`.
 */
export function classify(error: unknown, ...classifiers: readonly (Classifier | undefined)[]): Failure {
  const delayMs = error instanceof RetryAfter ? error.delayMs : retryAfterHeader(error);
  for (const classifier of classifiers) {
    const kind = classifier?.(error);
    if (kind === 'permanent') return { kind };
    if (kind === 'transient') return { kind, delayMs };
  }
  if (error instanceof PermanentError) return { kind: 'permanent' };
  if (error instanceof WebhookInboxError && PERMANENT_CODES.has(error.code)) return { kind: 'permanent' };
  const status = statusOf(error);
  if (status !== undefined && status >= 400 && status < 500 && !TRANSIENT_STATUS.has(status))
    return { kind: 'permanent' };
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined && PERMANENT_SQLSTATE.has(sqlState.slice(0, 2))) return { kind: 'permanent' };
  return { kind: 'transient', delayMs };
}

/**
 * Whether an error says that nothing was done at the other side: a refusal. Anything else (a time-out, a broken connection, a 5xx)
 * leaves it open; a refused connection too, unless the thrower says `notDone`: it may be another service's, after the call.
 */
export function isKnownNotDone(error: unknown): boolean {
  if (error instanceof PermanentError || error instanceof RetryAfter) return true;
  const status = statusOf(error);
  if (status !== undefined) return status >= 400 && status < 500;
  return property(error, 'notDone') === true;
}

/**
 * Whether an error says that the other side is out of order: it does not answer, or answers 408, 429 or 5xx. Undefined where the error says
 * nothing about it, as an error of the code itself.
 */
export function isOutOfOrder(error: unknown): boolean | undefined {
  const status = statusOf(error);
  if (status !== undefined) return TRANSIENT_STATUS.has(status) || status >= 500;
  if (error instanceof WebhookInboxError) return error.code === 'TIMED_OUT' || undefined;
  return isOfNetwork(error) || isOfNetwork(property(error, 'cause')) || undefined;
}

function isOfNetwork(error: unknown): boolean {
  const code = property(error, 'code');
  return typeof code === 'string' && /^(?:E(?:CONN|PIPE|TIMEDOUT|HOST|NET|AI_|NOTFOUND)|UND_ERR_)/.test(code);
}

/** Whether a value was refused by the database, or could not be encoded for it. The same value would fail again. */
export function isRefusedContent(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined)
    return PERMANENT_SQLSTATE.has(sqlState.slice(0, 2)) || sqlState.startsWith('54');
  return error instanceof TypeError || error instanceof RangeError;
}

/** A prepared statement is not there any more, is there already, or has another result than when it was prepared. */
export function isLostStatement(error: unknown): boolean {
  return LOST_STATEMENT.has(sqlStateOf(error) ?? '');
}

/** Whether the database could not be used, or refused for a moment: the caller should come back. */
export function isDatabaseUnavailable(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  if (sqlState === undefined) return isConnectionError(error);
  return TRANSIENT_SQLSTATE.has(sqlState.slice(0, 2)) || isServerUnusable(error) || sqlState === '55P03';
}

/** SQLSTATEs after which a pooled connection must not be used again: it leads to a demoted or dying server. */
export function isServerUnusable(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  return (
    sqlState !== undefined &&
    (sqlState === '25006' || sqlState.startsWith('08') || sqlState.startsWith('57P0'))
  );
}

/** Whether the database cannot be used at all, so that a row tried alone would fare no better than in a batch. */
export function isWholeDatabases(error: unknown): boolean {
  return sqlStateOf(error) === undefined ? isDatabaseUnavailable(error) : isServerUnusable(error);
}

/** The SQLSTATE of a pg or TypeORM error. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = property(property(error, 'driverError') ?? error, 'code');
  // EPIPE has five capitals too, so the class has to be one PostgreSQL uses.
  return typeof code === 'string' && /^(?:[0-9][0-9A-Z]|F0|HV|P0|XX)[0-9A-Z]{3}$/.test(code)
    ? code
    : undefined;
}

function isConnectionError(error: unknown): boolean {
  const cause = property(error, 'driverError') ?? error;
  const code = property(cause, 'code');
  const message = property(cause, 'message');
  return (
    (typeof code === 'string' && /^E(CONN|PIPE|TIMEDOUT|HOST|NET|AI_)/.test(code)) ||
    (typeof message === 'string' &&
      /connection terminated|client has encountered a connection error|timeout exceeded when trying to connect|cannot use a pool|is not established|not queryable|client was closed/i.test(
        message,
      ))
  );
}

/** The delay that the other side asked for by `Retry-After`, in milliseconds. */
export function retryAfterHeader(error: unknown): number | undefined {
  const headers = property(error, 'headers') ?? property(property(error, 'response'), 'headers');
  const get = property(headers, 'get');
  const value =
    typeof get === 'function'
      ? (get.call(headers, 'retry-after') as unknown)
      : property(headers, 'retry-after');
  if (typeof value !== 'string') return undefined;
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000;
  const at = Date.parse(value);
  return Number.isNaN(at) ? undefined : Math.max(0, at - Date.now());
}

function statusOf(error: unknown): number | undefined {
  const getStatus = property(error, 'getStatus');
  const status =
    (typeof getStatus === 'function' ? (getStatus.call(error) as unknown) : undefined) ??
    property(error, 'status') ??
    property(error, 'statusCode') ??
    property(property(error, 'response'), 'status');
  return typeof status === 'number' ? status : undefined;
}

function property(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
