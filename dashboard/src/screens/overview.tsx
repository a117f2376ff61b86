import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { Chart, type Line } from '../parts/chart.tsx';
import { Foreign, Loaded, PageHead, Panel, When } from '../parts/ui.tsx';
import { ago, capped, count, duration, millis, plural } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { Alert, Overview as Data, Step } from '../types.ts';
import { useNow } from '../use-now.ts';
import { useQuery } from '../use-query.ts';

export function Overview({ route }: { route: Route }) {
  const range = route.query['range'] === 'day' ? 'day' : 'hour';
  const figures = useQuery(`overview ${range}`, (signal) => api.overview(range, signal), 5_000);
  const alerts = useQuery('alerts', api.alerts, 15_000);
  return (
    <>
      <PageHead
        title="Overview"
        hint={range === 'hour' ? 'The last hour, by the minute' : 'The last day, by ten minutes'}
      >
        <nav class="tabs" aria-label="Range">
          {(['hour', 'day'] as const).map((one) => (
            <a
              key={one}
              href={href('overview', { range: one })}
              aria-current={one === range ? 'true' : undefined}
            >
              {one === 'hour' ? 'Hour' : 'Day'}
            </a>
          ))}
        </nav>
      </PageHead>
      <Loaded query={alerts}>{(data) => <Alerts alerts={data.alerts} />}</Loaded>
      <Loaded query={figures}>{(data) => <Figures data={data} />}</Loaded>
    </>
  );
}

function Figures({ data }: { data: Data }) {
  const { steps, now } = data;
  const sum = (name: 'deliveries' | 'handled' | 'duplicates' | 'rejected' | 'lost') =>
    steps.reduce((total, step) => total + step[name], 0);
  const last = steps.findLast((step) => step.ackP99 !== null);
  const deliveries = sum('deliveries');
  const backlog = now.overdue[0]?.ageMs ?? 0;
  const quiet = deliveries === 0 && sum('rejected') === 0;
  return (
    <>
      <div class="tiles">
        <Tile name="Deliveries" value={count(deliveries)} to={href('events')} />
        <Tile name="Handled" value={count(sum('handled'))} to={href('events', { q: 'state:processed' })} />
        <Tile
          name="Duplicates"
          value={count(sum('duplicates'))}
          note={deliveries > 0 ? `${Math.round((sum('duplicates') / deliveries) * 100)} %` : undefined}
        />
        <Tile
          name="Rejected"
          value={count(sum('rejected'))}
          note={data.rejectedBy[0] && reasonText(data.rejectedBy[0].reason)}
          tone={sum('rejected') > 0 ? 'warn' : undefined}
          to={href('rejections')}
        />
        <Tile
          name="Answer p50"
          value={millis(last?.ackP50 ?? null)}
          note={`p99 ${millis(last?.ackP99 ?? null)}${last ? `, ${ago(new Date(last.at).toISOString())}` : ''}`}
        />
        <Tile
          name="Backlog age"
          value={backlog < 1_000 ? 'none' : duration(backlog)}
          note={`${capped(now.pending)} pending`}
          tone={backlog > 60_000 ? 'warn' : undefined}
          to={href('events', { q: 'state:pending' })}
        />
        <Tile
          name="In flight"
          value={count(now.running)}
          note={`${now.instances} instance${now.instances === 1 ? '' : 's'}`}
          to={href('relays')}
        />
        <Tile
          name="Dead"
          value={capped(now.dead)}
          note={now.parked > 0 ? `${capped(now.parked)} parked` : undefined}
          tone={now.dead > 0 ? 'bad' : undefined}
          to={href('dead')}
        />
      </div>
      {quiet && (
        <p class="notice">Nothing came in this time. Post a webhook, and it is here within five seconds.</p>
      )}
      <div class="charts">
        <Chart
          title="Deliveries"
          at={steps.map((step) => step.at)}
          format={compact}
          summary={`${deliveries} deliveries, ${sum('handled')} handled, ${sum('duplicates')} duplicates`}
          lines={[
            { label: 'delivered', colour: '--accent', values: column(steps, 'deliveries'), fill: true },
            { label: 'handled', colour: '--good', values: column(steps, 'handled') },
            { label: 'duplicates', colour: '--line-2', values: column(steps, 'duplicates') },
          ]}
        />
        <Chart
          title="Rejected, by reason"
          at={steps.map((step) => step.at)}
          format={compact}
          summary={
            data.rejectedBy.map((one) => `${one.count} ${reasonText(one.reason)}`).join(', ') || 'none'
          }
          lines={reasonLines(data)}
        />
        <Chart
          title="Failures"
          at={steps.map((step) => step.at)}
          format={compact}
          summary={`${capped(now.dead)} rows are dead now, ${sum('lost')} leases were lost`}
          lines={[
            { label: 'retried', colour: '--line-2', values: column(steps, 'retried') },
            { label: 'lost', colour: '--accent', values: column(steps, 'lost') },
            { label: 'died', colour: '--warn', values: column(steps, 'dead') },
            { label: 'dead', colour: '--bad', values: column(steps, 'deadRows'), fill: true },
          ]}
        />
        <Chart
          title="Time to an answer"
          at={steps.map((step) => step.at)}
          format={(value) => duration(value)}
          summary={`latest median ${millis(last?.ackP50 ?? null)}, 99th percentile ${millis(last?.ackP99 ?? null)}`}
          lines={[
            { label: 'p99', colour: '--line-2', values: column(steps, 'ackP99') },
            { label: 'p50', colour: '--accent', values: column(steps, 'ackP50') },
          ]}
        />
        <Chart
          title="Backlog age"
          at={steps.map((step) => step.at)}
          format={(value) => (value < 1 ? '0' : duration(value))}
          summary={
            backlog < 1_000
              ? 'nothing is overdue'
              : `the most overdue row has been due for ${duration(backlog)}`
          }
          lines={[
            { label: 'most overdue', colour: '--accent', values: column(steps, 'backlogMs'), fill: true },
          ]}
        />
        <Chart
          title="In flight"
          at={steps.map((step) => step.at)}
          format={compact}
          summary={`${now.running} rows run, ${capped(now.pending)} wait`}
          lines={[
            { label: 'waiting', colour: '--line-2', values: column(steps, 'pending') },
            { label: 'running', colour: '--accent', values: column(steps, 'running'), fill: true },
          ]}
        />
      </div>
    </>
  );
}

function Tile(props: { name: string; value: string; note?: string; tone?: 'warn' | 'bad'; to?: string }) {
  const inner = (
    <>
      <span class="tile-name">{props.name}</span>
      <span class="tile-value">{props.value}</span>
      <span class="tile-note">{props.note ?? '\u00a0'}</span>
    </>
  );
  const tone = `tile ${props.tone ?? ''}`;
  return props.to === undefined ? (
    <div class={tone}>{inner}</div>
  ) : (
    <a class={tone} href={props.to}>
      {inner}
    </a>
  );
}

/** Seen as going on while its cause was told of within this time: an alert is told again while its cause lasts. */
const LASTS_MS = 15 * 60_000;

/** The alerts of the last day. Alerts that go on come first, and muted alerts are folded away. */
function Alerts({ alerts }: { alerts: Alert[] }) {
  const now = useNow();
  const [muted, mute] = useMuted();
  const recent = alerts.filter(({ at }) => now - Date.parse(at) < 86_400_000);
  const shown = recent.filter((alert) => !isMuted(alert, muted, now)).slice(0, 8);
  const hidden = recent.length - shown.length;
  if (recent.length === 0) return null;
  return (
    <Panel title="Alerts">
      <ul class="rows">
        {shown.map((alert) => (
          <li key={alert.id} class="row">
            <span class="row-main">
              <a href={alertLink(alert)}>
                <strong>{sentence(alert)}</strong> <Foreign text={alert.subject} />
              </a>
            </span>
            <span class="row-side">
              <span class="hint">
                {now - Date.parse(alert.at) < LASTS_MS ? 'goes on, told' : 'not told since'}{' '}
                <When at={alert.at} />
              </span>
              <button
                type="button"
                class="quiet"
                aria-label={`Mute 1 h: ${sentence(alert)}`}
                onClick={() => mute(alert)}
              >
                Mute 1 h
              </button>
            </span>
          </li>
        ))}
      </ul>
      {hidden > 0 && (
        <p class="hint">{plural(hidden, 'further alert')} of the last 24 h not shown, or muted.</p>
      )}
    </Panel>
  );
}

/** Until when alerts of a kind and subject are muted, in this browser. */
type Muted = Readonly<Record<string, number>>;
const MUTED = 'webhooks-desk-muted';

function useMuted(): [Muted, (alert: Alert) => void] {
  const [muted, setMuted] = useState<Muted>(() => {
    try {
      return JSON.parse(localStorage.getItem(MUTED) ?? '{}') as Muted;
    } catch {
      return {};
    }
  });
  const mute = (alert: Alert) => {
    const now = Date.now();
    const lasting = Object.entries(muted).filter(([, until]) => until > now);
    const next = { ...Object.fromEntries(lasting), [muteKey(alert)]: now + 3_600_000 };
    setMuted(next);
    try {
      localStorage.setItem(MUTED, JSON.stringify(next));
    } catch {
      // Storage may be forbidden to the page: it is muted until the page is left.
    }
  };
  return [muted, mute];
}

function muteKey({ kind, subject }: Alert): string {
  return `${kind} ${subject}`;
}

function isMuted(alert: Alert, muted: Muted, now: number): boolean {
  return (muted[muteKey(alert)] ?? 0) > now;
}

/** Where what an alert is about can be seen. */
export function alertLink({ kind, subject }: Pick<Alert, 'kind' | 'subject'>): string {
  switch (kind) {
    case 'dead-letters':
    case 'not-redelivered':
      return href('dead');
    case 'backlog':
    case 'unknown-name':
      return href('events', { q: 'state:pending' });
    case 'destination-open':
    case 'unheard':
      return href('effects');
    case 'parked':
      return href('effects', { q: 'state:parked' });
    case 'rejection-burst':
      return href('rejections', { q: `source:"${subject.split(' ')[0]}"` });
    default: {
      const id = subject.split(' ').at(-1);
      return href('events', id ? { q: `id:"${id}"` } : {});
    }
  }
}

function sentence({ kind, facts }: Alert): string {
  const fact = (name: string) => {
    const value = facts[name];
    return typeof value === 'string' || typeof value === 'number' ? value : '';
  };
  switch (kind) {
    case 'dead-letters':
      return `${fact('count')} dead letters, threshold ${fact('threshold')}`;
    case 'backlog':
      return `Work has been due for ${duration(Number(facts['ageMs']))}`;
    case 'rejection-burst':
      return `${fact('count')} rejected requests within a minute`;
    case 'duplicate-ratio':
      return `${fact('duplicates')} of ${fact('deliveries')} deliveries were duplicates: is the dedupe key right?`;
    case 'conflict':
      return facts['conflict'] === 'other-bytes' ? 'Known id, other bytes' : 'Known bytes under a new id';
    case 'gaps-found':
      return `${plural(Number(fact('count')), 'event')} never arrived; claimed from the provider's list`;
    case 'destination-open':
      return facts['reason'] === 'gone'
        ? 'The destination wants no more calls (410)'
        : `${fact('failures')} calls in a row failed: only probes are sent`;
    case 'conflict-burst':
      return `${fact('count')} conflicts within a minute`;
    case 'unknown-name':
      return `${fact('rows')} rows wait for a handler that no process has`;
    case 'unheard':
      return `${plural(Number(fact('rows')), 'effect')} of an engine not reported in time; handed over again`;
    case 'not-redelivered':
      return 'The provider did not redeliver';
    case 'parked':
      return 'An effect waits for a decision';
    case 'missing-record':
      return 'A handled event has no business record';
    case 'new-effects-refused':
      return 'A replay was undone: it would have enqueued new effects';
    case 'future-time':
      return 'An event’s time is more than a day ahead';
    case 'missing-rows':
      return 'An event has fewer rows than it should';
    case 'manager-misused':
      return 'A handler used its manager after it had ended';
    default:
      return kind;
  }
}

const REASON_COLOURS = ['--warn', '--bad', '--accent', '--line-2'] as const;

/** The three commonest reasons, and the others as one. */
function reasonLines({ rejectedBy, steps }: Data): Line[] {
  const named = rejectedBy.slice(0, 3).map((one) => one.reason);
  const lines = named.map((reason, index): Line => ({
    label: reasonText(reason),
    colour: REASON_COLOURS[index]!,
    values: steps.map((step) => step.rejectedBy[reason] ?? 0),
  }));
  if (rejectedBy.length <= 3 && lines.length > 0) return lines;
  const rest = steps.map((step) =>
    named.reduce((left, reason) => left - (step.rejectedBy[reason] ?? 0), step.rejected),
  );
  return [
    ...lines,
    { label: lines.length > 0 ? 'others' : 'rejected', colour: REASON_COLOURS[3], values: rest },
  ];
}

function reasonText(reason: string): string {
  return reason.replaceAll('-', ' ');
}

function column(steps: Step[], name: Exclude<keyof Step, 'rejectedBy'>): (number | null)[] {
  return steps.map((step) => step[name]);
}

function compact(value: number): string {
  return value >= 10_000 ? `${Math.round(value / 1_000)}k` : count(value);
}
