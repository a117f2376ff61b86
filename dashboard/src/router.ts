import { useEffect, useState } from 'preact/hooks';

/** Where the page is: kept in the address after '#', so that a link leads to the same view. */
export interface Route {
  readonly screen: string;
  readonly id: string | undefined;
  readonly query: Readonly<Record<string, string>>;
}

export function routeOf(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const parts = path.split('/').map(decoded);
  const [screen = '', id] = parts;
  if (parts.includes(undefined) || parts.length > 2 || (screen === 'event' && !id))
    return { screen: 'malformed', id: undefined, query: {} };
  return {
    screen: screen === '' ? 'overview' : screen,
    id: id === '' ? undefined : id,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

/** undefined for an escape that is none, such as `%zz`. */
function decoded(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

export function href(path: string, query: Record<string, string | undefined> = {}): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) parameters.set(name, value);
  const text = parameters.toString();
  return text === '' ? `#/${path}` : `#/${path}?${text}`;
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => routeOf(location.hash));
  useEffect(() => {
    history.scrollRestoration = 'manual';
    const stop = rememberPlaces();
    const change = () => {
      setRoute(routeOf(location.hash));
      restorePlace();
    };
    addEventListener('hashchange', change);
    return () => (stop(), removeEventListener('hashchange', change));
  }, []);
  return route;
}

/** Where a person was on an entry of the browser's history: how far down, and on which link. */
interface Seen {
  y: number;
  link: string | undefined;
}
const seen = new Map<number, Seen>();
let entries = 0;

/** The number of the entry at hand; one that was just made has none yet. */
function entry(): number | undefined {
  return (history.state as { entry?: number } | null)?.entry;
}

function rememberPlaces(): () => void {
  if (entry() === undefined) history.replaceState({ entry: (entries += 1) }, '');
  entries = Math.max(entries, entry() ?? 0);
  const note = () => {
    const at = entry();
    const focused = document.activeElement?.closest('main a')?.getAttribute('href');
    if (at !== undefined && !isRestoring) seen.set(at, { y: scrollY, link: focused ?? seen.get(at)?.link });
  };
  const clicked = (event: Event) => {
    const at = entry();
    const link = (event.target as Element).closest('main a')?.getAttribute('href');
    if (at !== undefined && link) seen.set(at, { y: scrollY, link });
  };
  addEventListener('scroll', note, { passive: true });
  addEventListener('focusin', note);
  addEventListener('click', clicked, { capture: true });
  return () => {
    removeEventListener('scroll', note);
    removeEventListener('focusin', note);
    removeEventListener('click', clicked, { capture: true });
  };
}

let isRestoring = false;
const PATIENCE_MS = 1_500;

/** Goes to where the person was on this entry, as soon as the page is long enough; to the top of a new one. */
function restorePlace(): void {
  const place = seen.get(entry() ?? -1);
  if (entry() === undefined) history.replaceState({ entry: (entries += 1) }, '');
  const startedAt = performance.now();
  isRestoring = true;
  const attempt = () => {
    const late = performance.now() - startedAt > PATIENCE_MS;
    const link =
      place?.link && document.querySelector<HTMLElement>(`main a[href="${CSS.escape(place.link)}"]`);
    const ready = place === undefined || document.documentElement.scrollHeight >= place.y + innerHeight;
    if (!late && (!ready || (place?.link && !link))) {
      requestAnimationFrame(attempt);
      return;
    }
    if (link) link.focus({ preventScroll: true });
    scrollTo(0, place?.y ?? 0);
    isRestoring = false;
  };
  requestAnimationFrame(attempt);
}
