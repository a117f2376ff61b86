/** Why something was aborted, where an error only says that it was: Node's timers throw an AbortError with the reason beneath. */
export function abortReason(error: unknown): unknown {
  const { name, cause } = Object(error) as Partial<Error>;
  return name === 'AbortError' ? (cause ?? error) : error;
}

/** The value of `work`, or the signal's reason as soon as it fires; `work` itself goes on, and its end is ignored. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  // A failure after the signal has fired is nobody's: unhandled, it would end the process.
  work.catch(() => undefined);
  signal.throwIfAborted();
  let stop: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason as Error);
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop!);
  }
}
