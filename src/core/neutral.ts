import { AsyncLocalStorage } from 'node:async_hooks';

/** That of a process that is starting: nothing is asked for yet when this file is loaded. */
const enter = AsyncLocalStorage.snapshot();

/**
 * Runs code in an async context without a request's: work that many requests share, or that goes on after its request, would see the
 * tenant, the user and the trace of the request that happened to begin it.
 */
export function neutral<T>(code: () => T): T {
  return enter(code);
}
