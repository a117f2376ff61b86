import { types } from 'node:util';
import { StreamableFile } from '@nestjs/common';
import { from, isObservable, type Observable } from 'rxjs';
import { PermanentError } from './errors.js';

/** User code returned a value that stands for work which has not begun, or whose end no code awaits. */
export class LazyResult extends PermanentError {
  /** @param kind with its article: 'a generator' */
  constructor(name: string, kind: string) {
    super(
      `${name} returned ${kind}, so its work may not be done: expected a value, a promise or an Observable. ` +
        `Await the work in the method, and return its result`,
    );
  }
}

/**
 * Runs user code, and returns the value that it ends with. Promises and other thenables are awaited.
 * An Observable is subscribed to until it completes, as
 * Nest does with those of routes, and its last value is taken; none where it completes without one.
 * @param name of the code, for the error
 * @param signal ends the subscription, so that a request of Nest's HttpService is given up
 * @throws what the code, the promise or the Observable fails with; LazyResult
 */
export async function outcomeOf(code: () => unknown, name: string, signal?: AbortSignal): Promise<unknown> {
  let outcome = await code();
  while (isSubscribable(outcome)) outcome = await lastValue(outcome, signal);
  const kind = lazyKind(outcome) ?? kindWithin(outcome);
  if (kind !== undefined) throw new LazyResult(name, kind);
  return outcome;
}

/** The kind of a value that stands for work to be done by its reader, with its article; undefined for all others. */
export function lazyKind(value: unknown): string | undefined {
  if (typeof value === 'function') return 'a function';
  if (typeof value !== 'object' || value === null) return undefined;
  if (has(value, 'then')) return 'a promise';
  if (isSubscribable(value)) return 'an Observable';
  if (types.isGeneratorObject(value)) return 'a generator';
  if (isStream(value)) return 'a stream';
  if (has(value, Symbol.asyncIterator)) return 'an async iterable';
  if (has(value, 'next') && has(value, Symbol.iterator)) return 'an iterator';
  if (isQuery(value)) return 'a query that was not executed';
  return undefined;
}

/** For functions that must answer at once. @throws LazyResult */
export function refuseLazy(value: unknown, name: string): void {
  const kind = lazyKind(value);
  if (kind === undefined) return;
  if (types.isPromise(value)) value.catch(() => undefined);
  throw new LazyResult(name, kind);
}

/** How a function answers, by the way in which it is written; undefined for a plain one, and for one that was compiled to one. */
export function writtenAs(code: unknown): 'async' | 'generator' | undefined {
  if (types.isGeneratorFunction(code)) return 'generator';
  return types.isAsyncFunction(code) ? 'async' : undefined;
}

/** Work that was started and left behind in an array or in an object made for the answer: `return [this.a(), this.b()]`. */
function kindWithin(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const plain = Object.getPrototypeOf(value) === Object.prototype;
  if (!plain && !Array.isArray(value)) return undefined;
  // Not through getters: they may begin something.
  const parts = plain
    ? Object.values(Object.getOwnPropertyDescriptors(value)).map((one) => one.value as unknown)
    : (value as unknown[]);
  const left = parts.filter(
    (one) => types.isPromise(one) || isSubscribable(one) || types.isGeneratorObject(one),
  );
  // No other code awaits them, so one that fails would end the process.
  for (const one of left) if (types.isPromise(one)) one.catch(() => undefined);
  return left.length === 0 ? undefined : `${lazyKind(left[0])!} within ${plain ? 'an object' : 'an array'}`;
}

/** An Observable of any copy of rxjs, or of another library that offers the same to rxjs. */
function isSubscribable(value: unknown): value is Observable<unknown> {
  if (typeof value !== 'object' || value === null) return false;
  return isObservable(value) || has(value, '@@observable') || has(value, observableSymbol());
}

/** As polyfills define it. */
const observableSymbol = () => (Symbol as { readonly observable?: symbol }).observable ?? '@@observable';

function lastValue(observable: Observable<unknown>, signal: AbortSignal | undefined): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let last: unknown;
    const abort = () => {
      subscription.unsubscribe();
      reject(signal!.reason);
    };
    const end = (settle: () => void) => () => {
      signal?.removeEventListener('abort', abort);
      settle();
    };
    signal?.addEventListener('abort', abort, { once: true });
    const subscription = from(observable).subscribe({
      next: (value) => (last = value),
      error: (error: unknown) => end(() => reject(error))(),
      complete: end(() => resolve(last)),
    });
    if (signal?.aborted === true) abort();
  });
}

/** A response of superagent has a `pipe` too, and nothing to be read. */
function isStream(value: object): boolean {
  if (has(value, 'getReader') || has(value, 'getWriter') || value instanceof StreamableFile) return true;
  return has(value, 'pipe') && [Symbol.iterator, 'read', 'write'].some((name) => has(value, name));
}

/** A builder of TypeORM, Kysely and the like: its `execute` is what sends it. Those of Knex and Drizzle are thenables. */
function isQuery(value: object): boolean {
  const sends = has(value, 'execute') || has(value, 'getMany');
  return sends && ['getQuery', 'compile', 'toSQL', 'toQuery'].some((name) => has(value, name));
}

function has(value: object, name: PropertyKey): boolean {
  return typeof (value as Record<PropertyKey, unknown>)[name] === 'function';
}
