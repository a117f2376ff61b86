import { useState } from 'preact/hooks';
import { api, collect, type EventKey } from '../api.ts';
import { useCan, useMeta } from '../app-context.ts';
import { Export } from '../parts/export.tsx';
import { FilterBox } from '../parts/filter-box.tsx';
import { ForwardDialog } from '../parts/forward-dialog.tsx';
import { Paged } from '../parts/more.tsx';
import { ReplayDialog } from '../parts/replay-dialog.tsx';
import { Bulk, Table, type Column, type Selection } from '../parts/table.tsx';
import { Empty, Fault, Foreign, Hints, PageHead, State, When } from '../parts/ui.tsx';
import { count, time } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { EventPage, ListedEvent } from '../types.ts';
import { usePages, type Page } from '../use-pages.ts';
import { useAttempt } from '../use-attempt.ts';
import { useChosen, useSelection } from '../use-selection.ts';
import { zoneName } from '../zone.ts';

type Doing = { what: 'replay' | 'forward'; events?: EventKey[] } | undefined;

interface Listed extends Page<ListedEvent>, Omit<EventPage, 'events' | 'next'> {}

async function pageOf(q: string, after?: string, signal?: AbortSignal): Promise<Listed> {
  const { events, ...page } = await api.events(q, after, signal);
  return { ...page, items: events };
}

export function Events({ route }: { route: Route }) {
  const q = route.query['q'] ?? '';
  const { maxAtOnce } = useMeta();
  const pages = usePages<ListedEvent, Listed>(
    `events ${zoneName()} ${q}`,
    (after, signal) => pageOf(q, after, signal),
    10_000,
  );
  const [doing, setDoing] = useState<Doing>();
  const select = useSelection(q);
  const canReplay = useCan('replay');
  const canForward = useCan('forward');
  const { items, last } = pages;
  const [fault, attempt] = useAttempt();
  const chosen = useChosen(select, items);
  const keys = () => chosen.map(({ source, tenant, eventId }) => ({ source, tenant, eventId })).toReversed();
  const all = async () => {
    const found = await collect((after) => pageOf(q, after), maxAtOnce);
    pages.replace(found);
    select.onChange(new Set(found.map(({ id }) => id)));
  };
  return (
    <>
      <PageHead title="Events" hint="Every verified event, newest first">
        {canReplay && items.length > 0 && (
          <button type="button" onClick={() => setDoing({ what: 'replay' })}>
            Replay these…
          </button>
        )}
        {canForward && items.length > 0 && (
          <button type="button" onClick={() => setDoing({ what: 'forward' })}>
            Forward these…
          </button>
        )}
      </PageHead>
      <FilterBox
        list="events"
        value={q}
        types={[...new Set(items.map((event) => event.type))]}
        onChange={(value) => (location.hash = href('events', { q: value }))}
      />
      <Hints of={last?.hints} />
      {fault && <Fault error={fault} />}
      <Bulk select={select} noun="event" onAll={() => attempt(all)}>
        {canReplay && (
          <button type="button" onClick={() => setDoing({ what: 'replay', events: keys() })}>
            Replay selected…
          </button>
        )}
        {canForward && (
          <button type="button" onClick={() => setDoing({ what: 'forward', events: keys() })}>
            Forward selected…
          </button>
        )}
        <Export name="events" rows={chosen} />
      </Bulk>
      <Paged
        key={q}
        pages={pages}
        older={last?.searchedTo ? 'Keep looking' : 'Older events'}
        empty={<Nothing q={q} searchedTo={last?.searchedTo} />}
        hint={
          <>
            {last?.searchedTo && (
              <span class="hint">Looked back to {time(last.searchedTo)}; there is more before that.</span>
            )}
            {last?.rowsLookedAt && (
              <span class="hint">
                More rows are in this state than the {count(last.rowsLookedAt)} that were looked at.
              </span>
            )}
          </>
        }
      >
        {(events) => <EventTable events={events} select={select} />}
      </Paged>
      {doing?.what === 'replay' && (
        <ReplayDialog
          {...(doing.events ? { events: doing.events } : { filter: q })}
          onClose={() => setDoing(undefined)}
        />
      )}
      {doing?.what === 'forward' && (
        <ForwardDialog
          {...(doing.events ? { events: doing.events } : { filter: q })}
          onClose={() => setDoing(undefined)}
        />
      )}
    </>
  );
}

function Nothing({ q, searchedTo }: { q: string; searchedTo: string | undefined }) {
  if (searchedTo !== undefined) return <Empty title="Nothing found so far" />;
  if (q === '')
    return (
      <Empty title="No events yet">
        Post a signed webhook to <code>/webhooks/:source</code>; rejected requests are under Rejections.
      </Empty>
    );
  return <Empty title="No event matches">An id and a type may end in *.</Empty>;
}

const COLUMNS: readonly Column<ListedEvent>[] = [
  {
    head: 'State',
    width: '128px',
    cell: (event) => (
      <>
        <State of={event.state} />
        {event.effectsDead > 0 && <span class="tag bad">effect dead</span>}
        {event.effectsParked > 0 && <span class="tag warn">parked</span>}
      </>
    ),
  },
  {
    head: 'Type',
    width: '22%',
    title: (event) => event.type,
    cell: (event) => (
      <a class="row-link" href={href(`event/${event.id}`)}>
        {event.type ? <Foreign text={event.type} /> : <span class="faint">no type</span>}
      </a>
    ),
  },
  {
    head: 'Source',
    width: '14%',
    title: (event) => [event.source, event.tenant].filter(Boolean).join(' / '),
    cell: (event) => (
      <>
        {event.source}
        {event.tenant && (
          <span class="faint">
            {' '}
            / <Foreign text={event.tenant} />
          </span>
        )}
      </>
    ),
  },
  {
    head: 'Event',
    kind: 'mono',
    width: '18%',
    title: (event) => event.eventId,
    cell: (event) => <Foreign text={event.eventId} />,
  },
  {
    head: 'Outcome',
    kind: 'text',
    cell: (event) => event.outcome && <Foreign text={event.outcome} lines={1} />,
  },
  {
    head: 'Again',
    kind: 'num',
    width: '64px',
    cell: (event) => (event.duplicates > 0 ? count(event.duplicates) : null),
  },
  { head: 'Received', kind: 'end', width: '104px', cell: (event) => <When at={event.receivedAt} /> },
];

function EventTable({ events, select }: { events: ListedEvent[]; select: Selection }) {
  return <Table label="Events" rows={events} idOf={({ id }) => id} columns={COLUMNS} select={select} />;
}
