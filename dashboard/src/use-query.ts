import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { ApiError } from './api.ts';

export interface Query<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  readonly loading: boolean;
  readonly reload: () => void;
}

/**
 * What `ask` answers, asked again when `key` changes, every `everyMs` milliseconds while the page is looked at, and by `reload`.
 * An answer that comes after a newer question is dropped; old data stays while new is on its way, unless the key changed.
 */
export function useQuery<T>(key: string, ask: () => Promise<T>, everyMs?: number): Query<T> {
  const [state, setState] = useState<{ key: string; data?: T; error?: ApiError; loading: boolean }>({
    key,
    loading: true,
  });
  const asked = useRef(0);
  const latest = useRef(ask);
  latest.current = ask;

  const run = useCallback(() => {
    const number = (asked.current += 1);
    setState((before) => (before.key === key ? { ...before, loading: true } : { key, loading: true }));
    latest.current().then(
      (data) => number === asked.current && setState({ key, data, loading: false }),
      (error: unknown) => {
        if (number !== asked.current) return;
        const known = error instanceof ApiError ? error : new ApiError(0, String(error));
        setState((before) => ({ ...before, key, error: known, loading: false }));
      },
    );
  }, [key]);

  useEffect(() => {
    run();
    if (everyMs === undefined) return undefined;
    const timer = setInterval(() => document.visibilityState === 'visible' && run(), everyMs);
    return () => clearInterval(timer);
  }, [run, everyMs]);

  const current = state.key === key ? state : { key, loading: true };
  return {
    data: 'data' in current ? current.data : undefined,
    error: 'error' in current ? current.error : undefined,
    loading: current.loading,
    reload: run,
  };
}
