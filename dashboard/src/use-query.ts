import { QueryClient, QueryObserver, type QueryObserverResult } from '@tanstack/query-core';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { ApiError } from './api.ts';
import { useDialogOpen } from './dialogs.ts';

export interface Query<T> {
  readonly data: T | undefined;
  readonly error: ApiError | undefined;
  readonly loading: boolean;
  readonly reload: () => void;
}

/**
 * One cache for the page: parts that ask the same question share one request and one timer. A question that failed is asked again
 * by its timer, so that a server in trouble is not asked three times as often.
 */
const client = new QueryClient({
  defaultOptions: {
    queries: { retry: false, networkMode: 'always', staleTime: 1_000, refetchOnWindowFocus: true },
  },
});
client.mount();

/** Kept by the cache without being a question about work that changes. */
const CONSTANT = 'meta';

/**
 * Returns the answer to a question. The question is asked again when `key` changes, by `reload`, and every `everyMs` milliseconds
 * while the page is visible and no dialog is open. An old answer stays beside an error, and until the next answer, unless `key` changed.
 * @param inDialog whether the question belongs to a dialog, so that it goes on while one is open
 */
export function useQuery<T>(
  key: string,
  ask: (signal: AbortSignal) => Promise<T>,
  everyMs?: number,
  inDialog = false,
): Query<T> {
  const held: boolean = useDialogOpen() && !inDialog;
  const options = {
    queryKey: [key] as readonly unknown[],
    queryFn: ({ signal }: { signal: AbortSignal }) => ask(signal),
    refetchInterval: everyMs === undefined || held ? (false as const) : everyMs,
  };
  const observer = useMemo(() => new QueryObserver<T>(client, options), [key]);
  observer.setOptions(options);
  const [, render] = useState<object>();
  useEffect(() => observer.subscribe(() => render({})), [observer]);
  return resultOf(observer.getOptimisticResult(client.defaultQueryOptions(options)), observer);
}

function resultOf<T>(result: QueryObserverResult<T>, observer: QueryObserver<T>): Query<T> {
  const { data, error, isFetching } = result;
  const known = error === null || error instanceof ApiError ? error : new ApiError('refused', String(error));
  return {
    data,
    error: known ?? undefined,
    loading: isFetching,
    reload: () => void observer.refetch({ cancelRefetch: true }),
  };
}

/** Asks every question of the screen anew: after an action any of them may have another answer. */
export function reloadAll(): void {
  void client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== CONSTANT });
}

/** Age of what the screen shows. */
export interface Freshness {
  /** When the oldest answer on the screen came, in milliseconds since 1970; undefined before the first one. */
  readonly updatedAt: number | undefined;
  /** The failure of a question that has no newer answer. */
  readonly error: ApiError | undefined;
}

/** The freshness of all questions of the screen together. */
export function useFreshness(): Freshness {
  const [state, setState] = useState(freshness);
  useEffect(() => {
    const cache = client.getQueryCache();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const changed = () => {
      // Told while another part renders: a state set then would render twice.
      timer ??= setTimeout(() => {
        timer = undefined;
        const next = freshness();
        setState((last) => (last.updatedAt === next.updatedAt && last.error === next.error ? last : next));
      }, 0);
    };
    changed();
    const stop = cache.subscribe(changed);
    return () => (stop(), clearTimeout(timer));
  }, []);
  return state;
}

function freshness(): Freshness {
  const asked = client
    .getQueryCache()
    .findAll({ type: 'active' })
    .filter(({ queryKey }) => queryKey[0] !== CONSTANT);
  const times = asked.map(({ state }) => state.dataUpdatedAt).filter((at) => at > 0);
  const failed = asked.find(({ state }) => state.error instanceof ApiError);
  return {
    updatedAt: times.length === 0 ? undefined : Math.min(...times),
    error: failed?.state.error as ApiError | undefined,
  };
}
