import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan } from '../app-context.ts';
import { FilterBox } from '../parts/filter-box.tsx';
import { ReplayDialog } from '../parts/replay-dialog.tsx';
import { Empty, Fault, Foreign, Loaded, PageHead, State, When } from '../parts/ui.tsx';
import { count, time } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { EventPage, ListedEvent } from '../types.ts';
import { useQuery, type Query } from '../use-query.ts';

export function Events({ route }: { route: Route }) {
  const q = route.query['q'] ?? '';
  const first = useQuery(`events ${q}`, () => api.events(q), 10_000);
  const types = [...new Set((first.data?.events ?? []).map((event) => event.type))];
  const [replaying, setReplaying] = useState(false);
  const canReplay = useCan('replay');
  return (
    <>
      <PageHead title="Events" hint="Every verified event, newest first">
        {canReplay && (first.data?.events.length ?? 0) > 0 && (
          <button type="button" onClick={() => setReplaying(true)}>
            Replay these…
          </button>
        )}
      </PageHead>
      <FilterBox
        value={q}
        types={types}
        onChange={(value) => (location.hash = href('events', { q: value }))}
      />
      <Pages key={q} q={q} first={first} />
      {replaying && <ReplayDialog filter={q} onClose={() => setReplaying(false)} />}
    </>
  );
}

function Pages({ q, first }: { q: string; first: Query<EventPage> }) {
  const [more, setMore] = useState<EventPage[]>([]);
  const [loading, setLoading] = useState(false);
  const [error, setError] = useState<unknown>();
  const pages = first.data === undefined ? [] : [first.data, ...more];
  const last = pages.at(-1);
  const load = async () => {
    setLoading(true);
    try {
      const page = await api.events(q, last?.next);
      setMore((before) => [...before, page]);
      setError(undefined);
    } catch (fault) {
      setError(fault);
    }
    setLoading(false);
  };
  // The first page is asked again every few seconds: what moved on to the second is listed once.
  const events = [
    ...new Map(pages.flatMap((page) => page.events).map((event) => [event.id, event])).values(),
  ];
  return (
    <Loaded query={first}>
      {() => (
        <>
          {events.length === 0 ? (
            <Nothing q={q} searchedTo={last?.searchedTo} />
          ) : (
            <EventTable events={events} />
          )}
          {error !== undefined && <Fault error={error as never} />}
          <div class="more">
            {last?.searchedTo && (
              <span class="hint">Looked back to {time(last.searchedTo)}; there is more before that.</span>
            )}
            {last?.next && (
              <button type="button" disabled={loading} onClick={() => void load()}>
                {loading ? 'Looking…' : last.searchedTo ? 'Keep looking' : 'Older events'}
              </button>
            )}
          </div>
        </>
      )}
    </Loaded>
  );
}

function Nothing({ q, searchedTo }: { q: string; searchedTo: string | undefined }) {
  if (searchedTo !== undefined) return <Empty title="Nothing found so far" />;
  if (q === '')
    return (
      <Empty title="No events yet">
        Post a signed webhook to <code>/webhooks/:source</code>; requests that are not believed are under
        Rejections.
      </Empty>
    );
  return <Empty title="No event matches">Ids are matched whole; a type may end in *.</Empty>;
}

function EventTable({ events }: { events: ListedEvent[] }) {
  return (
    <div class="table-wrap">
      <table class="cards">
        <thead>
          <tr>
            <th scope="col">State</th>
            <th scope="col">Type</th>
            <th scope="col">Source</th>
            <th scope="col">Event</th>
            <th scope="col">Outcome</th>
            <th scope="col" class="num">
              Again
            </th>
            <th scope="col" class="end">
              Received
            </th>
          </tr>
        </thead>
        <tbody>
          {events.map((event) => (
            <tr key={event.id}>
              <td>
                <State of={event.state} />
                {event.effectsDead > 0 && <span class="tag bad">effect dead</span>}
                {event.effectsParked > 0 && <span class="tag warn">parked</span>}
              </td>
              <td>
                <a class="row-link" href={href(`event/${event.id}`)}>
                  {event.type || <span class="faint">no type</span>}
                </a>
              </td>
              <td>
                {event.source}
                {event.tenant && <span class="faint"> / {event.tenant}</span>}
              </td>
              <td class="mono ellipsis" title={event.eventId}>
                {event.eventId}
              </td>
              <td class="wide">
                <Foreign text={event.outcome} lines={1} />
              </td>
              <td class="num">{event.duplicates > 0 ? count(event.duplicates) : ''}</td>
              <td class="end">
                <When at={event.receivedAt} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
