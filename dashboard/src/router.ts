import { useEffect, useState } from 'preact/hooks';

/** Where the page is: kept in the address after '#', so that a link leads to the same view. */
export interface Route {
  readonly screen: string;
  readonly id: string | undefined;
  readonly query: Readonly<Record<string, string>>;
}

export function routeOf(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const [screen = '', id] = path.split('/').map((part) => decodeURIComponent(part));
  return {
    screen: screen === '' ? 'overview' : screen,
    id: id === '' ? undefined : id,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
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
    const change = () => setRoute(routeOf(location.hash));
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return route;
}
