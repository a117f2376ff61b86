import { useMeta } from '../app-context.ts';
import { duration } from '../format.ts';
import type { Attempt, EventDetail, EventRow } from '../types.ts';
import { Foreign, Moment, Panel } from './ui.tsx';

/** Every attempt of an event's rows, and what people did to them or paused, as it happened. Without any there is nothing to tell. */
export function History({ event }: { event: EventDetail }) {
  const rows = new Map(event.rows.map((row) => [row.id, row]));
  const attempts = event.attempts.map((attempt) => ({
    // One that runs comes last.
    at: attempt.endedAt ?? '~',
    entry: (
      <Entry
        key={`${attempt.outboxId} ${attempt.attempt} ${attempt.outcome} ${attempt.endedAt}`}
        attempt={attempt}
        row={rows.get(attempt.outboxId)}
      />
    ),
  }));
  const pauses = event.pauses.map((pause) => ({
    at: pause.at,
    entry: <Pause key={`${pause.target} ${pause.at}`} pause={pause} />,
  }));
  const entries = [...pauses, ...attempts].sort((one, other) =>
    one.at < other.at ? -1 : +(one.at > other.at),
  );
  if (entries.length === 0) return null;
  return (
    <Panel title="History">
      <ol class="timeline">{entries.map(({ entry }) => entry)}</ol>
    </Panel>
  );
}

function Pause({ pause }: { pause: EventDetail['pauses'][number] }) {
  return (
    <li class="mute">
      <div class="row">
        <span class="row-main">
          <strong>
            <Foreign text={pause.target} />
          </strong>{' '}
          <Foreign text={pause.by} /> {pause.action}d it
        </span>
        <Moment at={pause.at} />
      </div>
      <p class="hint">
        Why: <Foreign text={pause.why} />
      </p>
    </li>
  );
}

const DOT: Record<string, string> = {
  done: 'good',
  dead: 'bad',
  parked: 'warn',
  lost: 'warn',
  unheard: 'warn',
  handed: 'busy',
  running: 'busy',
};
const ENDED: Record<string, string> = {
  done: 'done',
  superseded: 'superseded by a newer event',
  refused: 'refused: it would have enqueued new effects',
  retry: 'failed, to be tried again',
  dead: 'failed for good',
  parked: 'parked: its end is not known',
  lost: 'never ended',
  released: 'given back before its end',
  handed: 'with an engine',
  unheard: 'not reported by the engine in time',
  cancelled: 'cancelled by the application',
  erased: 'content erased',
  running: 'running',
};
const DID: Record<string, string> = {
  held: 'parked it',
  revived: 'revived it',
  replayed: 'replayed it',
  'given-up': 'gave it up',
  cancelled: 'cancelled it',
};
const DECIDED: Record<string, string> = {
  done: 'decided: it happened',
  retry: 'decided: do it again',
  dead: 'decided: leave it',
};

function Entry({ attempt, row }: { attempt: Attempt; row: EventRow | undefined }) {
  const { by, outcome, endedAt, begunAt } = attempt;
  return (
    <li class={by === null ? (DOT[outcome] ?? 'mute') : 'mute'}>
      <div class="row">
        <span class="row-main">
          <strong>{row?.name}</strong>
          {row?.key && <code>{row.key}</code>}{' '}
          {by === null ? (
            <>
              {attempt.attempt > 0 && `attempt ${attempt.attempt} `}
              {ENDED[outcome] ?? outcome}
            </>
          ) : (
            <>
              <Foreign text={by} /> {did(attempt)}
            </>
          )}
        </span>
        {(endedAt ?? begunAt) && <Moment at={(endedAt ?? begunAt)!} />}
      </div>
      {by === null ? (
        <p class="hint">{facts(attempt)}</p>
      ) : (
        <p class="hint">
          Why: <Foreign text={attempt.why} />
        </p>
      )}
      {attempt.place && <PlaceOf place={attempt.place} />}
      {attempt.error && (
        <p class="result">
          <Foreign text={attempt.error} lines={3} />
        </p>
      )}
    </li>
  );
}

function did({ outcome, reason }: Attempt): string {
  return (outcome === 'decided' ? DECIDED[reason ?? ''] : DID[outcome]) ?? outcome;
}

function facts({ begunAt, endedAt, host, instance, build, reason }: Attempt): string {
  return [
    begunAt && endedAt && `took ${duration(Math.max(0, Date.parse(endedAt) - Date.parse(begunAt)))}`,
    instance && `on ${host ?? instance}`,
    build && `build ${build}`,
    reason && reason.replaceAll('-', ' '),
  ]
    .filter(Boolean)
    .join(', ');
}

/** A line of the application's code, with a link where the application says how its repository is reached. */
export function PlaceOf({ place }: { place: string }) {
  const { root, sourceLink } = useMeta();
  const short = place.startsWith(root) ? place.slice(root.length) : place;
  const [, file = '', line = ''] = /^(.*?):(\d+)(?::\d+)?$/.exec(short) ?? [];
  const isInside = file !== '' && !/^(?:\/|[A-Za-z]:|…|\.\.)/.test(file);
  const text = (
    <code class="break">
      <Foreign text={short} />
    </code>
  );
  if (!sourceLink || !isInside) return <p class="hint">{text}</p>;
  const to = sourceLink
    .replaceAll('{file}', () => file.split('/').map(encodeURIComponent).join('/'))
    .replaceAll('{line}', () => line);
  return (
    <p class="hint">
      <a href={to} target="_blank" rel="noreferrer">
        {text}
      </a>
    </p>
  );
}

/** How many died in each hour of the last day: bars, with the figures in words. */
export function Spark({ hours }: { hours: readonly number[] }) {
  const most = Math.max(...hours, 1);
  const sum = hours.reduce((total, n) => total + n, 0);
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${hours.length * 4} 20`}
      role="img"
      aria-label={`${sum} in the last 24 hours, at most ${Math.max(...hours, 0)} in an hour`}
    >
      {hours.map((n, at) => {
        const height = n === 0 ? 1 : Math.max(3, Math.round((n / most) * 20));
        return (
          <rect key={at} class={n === 0 ? 'none' : ''} x={at * 4} y={20 - height} width="3" height={height} />
        );
      })}
    </svg>
  );
}
