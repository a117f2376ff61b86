import type { ComponentChildren } from 'preact';
import type { Pages } from '../use-pages.ts';
import { Fault, Loaded } from './ui.tsx';

/** A list in pages: its rows, or that there are none, and the way to the next page. */
export function Paged<T>(props: {
  pages: Pages<T>;
  empty: ComponentChildren;
  hint?: ComponentChildren;
  older?: string;
  children: (items: T[]) => ComponentChildren;
}) {
  const { pages } = props;
  return (
    <Loaded query={pages.first}>
      {() => (
        <>
          {pages.news > 0 && (
            <div class="news">
              <button type="button" onClick={pages.show}>
                {pages.news} new
              </button>
            </div>
          )}
          {pages.items.length === 0 ? props.empty : props.children(pages.items)}
          {pages.error && <Fault error={pages.error} />}
          <div class="more">
            {props.hint}
            {pages.last?.next && (
              <button type="button" disabled={pages.loading} onClick={pages.more}>
                {pages.loading ? 'Looking…' : (props.older ?? 'Older')}
              </button>
            )}
          </div>
        </>
      )}
    </Loaded>
  );
}
