import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ApiError } from '../api.ts';
import { useSignIn } from '../app-context.ts';
import { dialogOpened } from '../dialogs.ts';
import { ago, time, zoneText } from '../format.ts';
import { visible } from '../text.ts';
import { reloadAll, useFreshness, type Query } from '../use-query.ts';
import { useNow } from '../use-now.ts';
import { chooseZone, useZone } from '../zone.ts';

const TONES: Record<string, string> = {
  processed: 'good',
  done: 'good',
  alive: 'good',
  resolved: 'good',
  ok: 'good',
  dead: 'bad',
  open: 'bad',
  gone: 'bad',
  parked: 'warn',
  acknowledged: 'warn',
  pending: 'busy',
  running: 'busy',
};

/** A state as a word with a dot: never by colour alone. */
export function State({ of }: { of: string }) {
  return <span class={`state ${TONES[of] ?? 'mute'}`}>{of}</span>;
}

/** A moment: how long ago, with the full time at hand. */
export function When({ at }: { at: string | null | undefined }) {
  useNow();
  useZone();
  if (!at) return <span class="faint">–</span>;
  return (
    <time dateTime={at} title={time(at)}>
      {ago(at)}
    </time>
  );
}

/** The full time, in the zone shown. */
export function Moment({ at }: { at: string }) {
  useZone();
  return <time dateTime={at}>{time(at)}</time>;
}

/** Text that others wrote: as text, with what cannot be seen made visible. */
export function Foreign({ text, lines }: { text: string | null; lines?: number }) {
  if (text === null || text === '') return <span class="faint">–</span>;
  return <span class={lines === undefined ? 'foreign' : `foreign clamp-${lines}`}>{visible(text)}</span>;
}

export function Panel(props: { title: string; aside?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="panel">
      <header class="panel-head">
        <h2>{props.title}</h2>
        {props.aside}
      </header>
      {props.children}
    </section>
  );
}

export function PageHead(props: { title: string; hint?: string; children?: ComponentChildren }) {
  return (
    <header class="page-head">
      <div>
        <h1>{props.title}</h1>
        {props.hint && <p class="hint">{props.hint}</p>}
        <Freshness />
      </div>
      {props.children && <div class="page-actions">{props.children}</div>}
    </header>
  );
}

/** How old the figures of the screen are, in which zone its times are, and whether the server answers. */
function Freshness() {
  const { updatedAt, error } = useFreshness();
  const now = useNow();
  const zone = useZone();
  const age = updatedAt === undefined ? undefined : Math.max(0, Math.round((now - updatedAt) / 1_000));
  return (
    <p class="fresh">
      <span class={error ? 'bad' : undefined} role="status">
        {error?.kind === 'silent' && 'Server does not answer. '}
        {error?.kind === 'unreachable' && 'Server cannot be reached. '}
      </span>
      {age !== undefined && <span>Updated {age < 1 ? 'now' : `${age} s ago`}</span>}
      <button type="button" class="quiet" onClick={reloadAll}>
        Refresh
      </button>
      <span>
        Times in <span class="zone">{zoneText()}</span>
      </span>
      <button type="button" class="quiet" onClick={() => chooseZone(zone === 'utc' ? 'local' : 'utc')}>
        {zone === 'utc' ? 'Show local time' : 'Show UTC'}
      </button>
    </p>
  );
}

export function Empty(props: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{props.title}</p>
      {props.children && <p class="hint">{props.children}</p>}
    </div>
  );
}

/** Names in a filter that nothing is called by. */
export function Hints({ of }: { of: string[] | undefined }) {
  if (of === undefined || of.length === 0) return null;
  return (
    <p class="notice" role="status">
      <Foreign text={of.join('. ')} />
    </p>
  );
}

export function Fault(props: { error: ApiError; onRetry?: () => void }) {
  return (
    <div class="fault" role="alert">
      <p>
        {visible(props.error.message)}
        {props.error.kind === 'signed-out' && <SignIn />}
      </p>
      {props.onRetry && (
        <button type="button" onClick={props.onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** A link to the application's login page. It opens in a new tab, so that typed text stays here. */
export function SignIn() {
  const url = useSignIn();
  if (!url) return null;
  return (
    <>
      {' '}
      <a href={url} target="_blank" rel="noreferrer">
        Sign in
      </a>
    </>
  );
}

/** Loading, error or content of a query: old content stays visible beside an error. */
export function Loaded<T>(props: { query: Query<T>; children: (data: T) => ComponentChildren }) {
  const { data, error, reload } = props.query;
  return (
    <>
      {error && <Fault error={error} onRetry={reload} />}
      {data === undefined ? !error && <Skeleton /> : props.children(data)}
    </>
  );
}

function Skeleton() {
  return (
    <div class="skeleton" aria-busy="true">
      <span class="sr">Loading…</span>
      {[0, 1, 2, 3, 4].map((line) => (
        <div key={line} class="skeleton-line" />
      ))}
    </div>
  );
}

export function Copy({ text, label = 'Copy' }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1_500);
  };
  return (
    <button type="button" class="quiet" onClick={() => void copy()} aria-live="polite">
      {done ? 'Copied' : label}
    </button>
  );
}

/** A list of terms. */
export function Facts({ of }: { of: (readonly [string, ComponentChildren] | false | undefined)[] }) {
  return (
    <dl class="facts">
      {of.map(
        (fact) =>
          fact && (
            <div key={fact[0]}>
              <dt>{fact[0]}</dt>
              <dd>{fact[1]}</dd>
            </div>
          ),
      )}
    </dl>
  );
}

/** A modal: the browser's own, which keeps the focus inside and gives it back. */
export function Dialog(props: {
  title: string;
  onClose: () => void;
  /** Asked when Esc is pressed; false keeps the dialog open. */
  mayCancel?: () => boolean;
  children: ComponentChildren;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  // The browser tells of a close later, when another dialog may have taken this one's place: that one stays.
  const gone = useRef(false);
  useEffect(() => {
    const dialog = ref.current!;
    dialog.showModal();
    const closed = dialogOpened();
    return () => {
      gone.current = true;
      closed();
      dialog.close();
    };
  }, []);
  return (
    <dialog
      ref={ref}
      onKeyDown={(event) => {
        // The key and not the cancel event: Chromium closes at the second Esc whatever that event's listeners say.
        if (event.key === 'Escape' && props.mayCancel?.() === false) event.preventDefault();
      }}
      onClose={() => !gone.current && props.onClose()}
      aria-label={props.title}
    >
      <header class="dialog-head">
        <h2>{props.title}</h2>
        <button
          type="button"
          class="quiet"
          onClick={() => props.mayCancel?.() !== false && props.onClose()}
          aria-label="Close"
        >
          ✕
        </button>
      </header>
      {props.children}
    </dialog>
  );
}
