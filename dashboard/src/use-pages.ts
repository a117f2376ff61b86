import { useRef, useState } from 'preact/hooks';
import type { ApiError } from './api.ts';
import { useQuery, type Query } from './use-query.ts';

export interface Page<T> {
  readonly items: T[];
  readonly next?: string | undefined;
}
export interface Pages<T> {
  readonly first: Query<Page<T>>;
  /** Those of all pages that were loaded, each once. */
  readonly items: T[];
  readonly last: Page<T> | undefined;
  readonly loading: boolean;
  readonly error: ApiError | undefined;
  readonly more: () => void;
  /** How many items have come that are not shown, since a row is under the pointer; `show` shows them. */
  readonly news: number;
  readonly show: () => void;
  /** Shows these items in place of the pages that were loaded. */
  readonly replace: (items: T[]) => void;
}

/** Further pages by list, so that the way back finds them; the oldest list is forgotten first. */
const loaded = new Map<string, Page<unknown>[]>();
const MAX_LISTS = 20;

/** A list in pages. The first page is asked again every `everyMs` milliseconds; the others stay as they were loaded. */
export function usePages<
  T extends { id: string } | { fingerprint: string } | { name: string },
  P extends Page<T>,
>(
  key: string,
  ask: (after: string | undefined, signal?: AbortSignal) => Promise<P>,
  everyMs: number,
): Pages<T> & { readonly first: Query<P>; readonly last: P | undefined } {
  const first = useQuery(key, (signal) => ask(undefined, signal), everyMs);
  const [state, setState] = useState<{ loading: boolean; error?: ApiError }>({ loading: false });
  const shown = useRef<{ key: string; page: P | undefined } | undefined>(undefined);
  const isHeld = shown.current?.key === key && shown.current.page !== undefined && isRowPointedAt();
  if (!isHeld) shown.current = { key, page: first.data };
  const page = shown.current?.page;
  const show = () => {
    shown.current = { key, page: first.data };
    setState({ ...state });
  };
  const further = (loaded.get(key) ?? []) as P[];
  const pages = page === undefined ? [] : [page, ...further];
  const last = pages.at(-1);
  const more = () => {
    setState({ loading: true });
    ask(last?.next).then(
      (page) => {
        remember(key, [...further, page]);
        setState({ loading: false });
      },
      (error: ApiError) => setState({ loading: false, error }),
    );
  };
  const replace = (all: T[]) => {
    remember(key, [{ ...last, items: all }]);
    setState({ loading: false });
  };
  // What moved on from the first page to the second since then is listed once.
  const items = [...new Map(pages.flatMap((page) => page.items).map((item) => [idOf(item), item])).values()];
  const ids = new Set(items.map(idOf));
  const news = (first.data?.items ?? []).filter((item) => !ids.has(idOf(item))).length;
  return { first, items, last, more, news, show, replace, loading: state.loading, error: state.error };
}

/** A row that somebody is about to click must not move away. A touch screen has no pointer that rests. */
const isRowPointedAt = () =>
  matchMedia('(hover: hover)').matches &&
  document.querySelector('main tbody tr:hover, main a.issue:hover') !== null;

function remember(key: string, pages: Page<unknown>[]): void {
  loaded.delete(key);
  loaded.set(key, pages);
  if (loaded.size > MAX_LISTS) loaded.delete(loaded.keys().next().value!);
}

function idOf(item: { id: string } | { fingerprint: string } | { name: string }): string {
  if ('id' in item) return item.id;
  return 'fingerprint' in item ? item.fingerprint : item.name;
}
