import { render, type ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { api } from './api.ts';
import { MetaContext } from './app-context.ts';
import { Dialog, Empty, Fault } from './parts/ui.tsx';
import { capped } from './format.ts';
import { titled, waitingFor } from './title.ts';
import { href, useRoute, type Route } from './router.ts';
import { Dead } from './screens/dead.tsx';
import { Effects } from './screens/effects.tsx';
import { Event } from './screens/event.tsx';
import { Events } from './screens/events.tsx';
import { Audit, Relays, Sources } from './screens/lists.tsx';
import { Overview } from './screens/overview.tsx';
import { Rejections } from './screens/rejections.tsx';
import './style.css';
import { useQuery } from './use-query.ts';

interface Screen {
  readonly path: string;
  readonly name: string;
  /** Pressed after 'g'. */
  readonly key: string;
  readonly show: (route: Route) => ComponentChildren;
}

const SCREENS: readonly Screen[] = [
  { path: 'overview', name: 'Overview', key: 'o', show: (route) => <Overview route={route} /> },
  { path: 'events', name: 'Events', key: 'e', show: (route) => <Events route={route} /> },
  { path: 'effects', name: 'Effects', key: 'f', show: (route) => <Effects route={route} /> },
  { path: 'dead', name: 'Dead letters', key: 'd', show: (route) => <Dead route={route} /> },
  { path: 'rejections', name: 'Rejections', key: 'r', show: (route) => <Rejections route={route} /> },
  { path: 'sources', name: 'Sources', key: 's', show: (route) => <Sources route={route} /> },
  { path: 'relays', name: 'Relays', key: 'l', show: () => <Relays /> },
  { path: 'audit', name: 'Audit', key: 'a', show: (route) => <Audit route={route} /> },
];

/** Screens that are of all sources. */
const OF_ALL = ['overview', 'relays', 'audit'];
const NONE = { dead: 0, parked: 0 };

function App() {
  const route = useRoute();
  const meta = useQuery('meta', api.meta);
  const seesAll = meta.data?.seesAll === true;
  const screens = SCREENS.filter(({ path }) => meta.data === undefined || seesAll || !OF_ALL.includes(path));
  const [help, setHelp] = useState(false);
  useKeys(() => setHelp(true));
  const active = route.screen === 'event' ? 'events' : route.screen;
  const screen = SCREENS.find((one) => one.path === route.screen);
  const counts = useQuery('counts', seesAll ? api.counts : () => Promise.resolve(NONE), 15_000);
  const { dead, parked } = counts.data ?? NONE;
  useEffect(() => titled(screen?.name ?? 'Event'), [route.screen, route.id]);
  useEffect(() => waitingFor(dead + parked), [dead, parked]);
  // On a phone the menu is a line that scrolls.
  useEffect(() => {
    document.querySelector('.side [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' });
  }, [active, meta.data === undefined]);
  const waiting: Record<string, number> = { dead, effects: parked };
  return (
    <>
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.getElementById('main')?.focus())}
      >
        Skip to content
      </a>
      <nav class="side" aria-label="Screens">
        <p class="brand">Webhooks</p>
        <ul>
          {screens.map((one) => (
            <li key={one.path}>
              <a href={href(one.path)} aria-current={one.path === active ? 'page' : undefined}>
                {one.name}
                {(waiting[one.path] ?? 0) > 0 && (
                  <span
                    class="waits"
                    aria-label={`${capped(waiting[one.path]!)} ${one.path === 'dead' ? 'dead' : 'parked'}`}
                  >
                    {capped(waiting[one.path]!)}
                  </span>
                )}
              </a>
            </li>
          ))}
        </ul>
        <p class="side-foot">
          {meta.data && (
            <>
              <span title="Your name in the audit">{meta.data.actor}</span>
              {meta.data.readOnly && <span class="tag">read only</span>}
              {meta.data.unauthenticated && <span class="tag warn">no sign-in</span>}
            </>
          )}
          <button type="button" class="quiet" onClick={() => setHelp(true)}>
            Keys <kbd>?</kbd>
          </button>
        </p>
      </nav>
      <main id="main" tabIndex={-1}>
        {meta.error && <Fault error={meta.error} onRetry={meta.reload} />}
        {meta.data && (
          <MetaContext.Provider value={meta.data}>
            {route.screen === 'event' ? (
              <Event route={route} />
            ) : (
              (screen?.show(route) ?? (
                <Empty
                  title={route.screen === 'malformed' ? 'This address is malformed' : 'There is no such page'}
                >
                  {route.screen === 'malformed' && 'Part of it is missing, or was changed on its way. '}
                  <a href={href('overview')}>Overview</a>
                </Empty>
              ))
            )}
          </MetaContext.Provider>
        )}
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <div class="dialog-body">
        <dl class="facts">
          <div>
            <dt>
              <kbd>/</kbd>
            </dt>
            <dd>Filter the list</dd>
          </div>
          <div>
            <dt>
              <kbd>j</kbd> <kbd>k</kbd>
            </dt>
            <dd>Next and former row; Enter opens it</dd>
          </div>
          {SCREENS.map((one) => (
            <div key={one.key}>
              <dt>
                <kbd>g</kbd> <kbd>{one.key}</kbd>
              </dt>
              <dd>{one.name}</dd>
            </div>
          ))}
        </dl>
      </div>
    </Dialog>
  );
}

const ROWS = 'a.row-link, a.issue, details.issue > summary, tbody td a';

/** Keys that work anywhere but in a field or a dialog. */
function useKeys(onHelp: () => void): void {
  useEffect(() => {
    let afterG = false;
    const key = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (target.matches('input, textarea, select') || document.querySelector('dialog[open]')) return;
      const screen = afterG ? SCREENS.find((one) => one.key === event.key) : undefined;
      afterG = event.key === 'g';
      if (screen) location.hash = href(screen.path);
      else if (event.key === '?') onHelp();
      else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1);
      else if (event.key === '/') {
        event.preventDefault();
        const filter = document.getElementById('filter');
        if (filter) filter.focus();
        else {
          location.hash = href('events');
          setTimeout(() => document.getElementById('filter')?.focus(), 100);
        }
      }
    };
    addEventListener('keydown', key);
    return () => removeEventListener('keydown', key);
  }, []);
}

function step(by: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>(ROWS)];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
}

render(<App />, document.getElementById('app')!);
