import { AsyncLocalStorage } from 'node:async_hooks';

/** That of a process that is starting: nothing is asked for yet when this file is loaded. */
const enter = AsyncLocalStorage.snapshot();

/**
 * Runs code in an async context without a request. Otherwise work that many requests share, or that outlives its request, would have the
 * tenant, the user and the trace of one request.
 */
export function neutral<T>(code: () => T): T {
  return enter(code);
}
