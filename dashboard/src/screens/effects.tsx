import { useState } from 'preact/hooks';
import { api, collect } from '../api.ts';
import { useCan, useMeta } from '../app-context.ts';
import { Decide, ParkDialog } from '../parts/decide-dialog.tsx';
import { Destinations } from '../parts/destinations.tsx';
import { Export } from '../parts/export.tsx';
import { FilterBox } from '../parts/filter-box.tsx';
import { Paged } from '../parts/more.tsx';
import { PauseButton } from '../parts/pause-button.tsx';
import { CancelDialog, GiveUpDialog, ReviveDialog } from '../parts/revive-dialog.tsx';
import { Bulk, Table, type Column } from '../parts/table.tsx';
import { Empty, Fault, Foreign, Hints, PageHead, State, When } from '../parts/ui.tsx';
import { href, type Route } from '../router.ts';
import type { Effect } from '../types.ts';
import { usePages, type Page } from '../use-pages.ts';
import { reloadAll } from '../use-query.ts';
import { useAttempt } from '../use-attempt.ts';
import { useChosen, useSelection } from '../use-selection.ts';
import { zoneName } from '../zone.ts';
import { eventLink, isCallable } from './event.tsx';

interface Listed extends Page<Effect> {
  readonly hints?: string[];
}

async function pageOf(q: string, after?: string, signal?: AbortSignal): Promise<Listed> {
  const { effects, ...page } = await api.effects(q, after, signal);
  return { ...page, items: effects };
}

type Doing = { what: 'decide' | 'revive' | 'give-up' | 'cancel' | 'park'; rows: Effect[] } | undefined;

export function Effects({ route }: { route: Route }) {
  const { maxAtOnce } = useMeta();
  const can = {
    decide: useCan('decide'),
    revive: useCan('revive'),
    giveUp: useCan('give-up'),
    cancel: useCan('cancel'),
    park: useCan('park'),
  };
  const [doing, setDoing] = useState<Doing>();
  const q = route.query['q'] ?? '';
  const pages = usePages<Effect, Listed>(
    `effects ${zoneName()} ${q}`,
    (after, signal) => pageOf(q, after, signal),
    10_000,
  );
  const select = useSelection(q);
  const [fault, attempt] = useAttempt();
  const chosen = useChosen(select, pages.items);
  const parked = chosen.filter(({ state }) => state === 'parked');
  const waiting = chosen.filter(isCallable);
  const dead = chosen.filter(({ state }) => state === 'dead');
  const [, name] = /(?:^|\s)effect:([^\s,*]+)(?:\s|$)/.exec(q) ?? [];
  const all = async () => {
    const found = await collect((after) => pageOf(q, after), maxAtOnce);
    pages.replace(found);
    select.onChange(new Set(found.map(({ id }) => id)));
  };
  const close = () => (setDoing(undefined), reloadAll());
  const columns: readonly Column<Effect>[] = [
    {
      head: 'State',
      width: '150px',
      cell: (effect) => (
        <>
          <State of={effect.state} />
          {can.decide && effect.state === 'parked' && (
            <button type="button" class="quiet" onClick={() => setDoing({ what: 'decide', rows: [effect] })}>
              Decide…
            </button>
          )}
        </>
      ),
    },
    {
      head: 'Effect',
      width: '20%',
      title: (effect) => `${effect.name} ${effect.key}`,
      cell: (effect) => (
        <>
          {effect.name}
          {effect.key && (
            <code>
              {' '}
              <Foreign text={effect.key} />
            </code>
          )}
        </>
      ),
    },
    {
      head: 'Event',
      kind: 'mono',
      width: '22%',
      title: (effect) => effect.eventId ?? '',
      cell: (effect) => eventLink(effect.claimId, effect.eventId ?? '–'),
    },
    {
      head: 'Error',
      kind: 'text',
      cell: (effect) => effect.state !== 'done' && effect.error && <Foreign text={effect.error} lines={1} />,
    },
    { head: 'Attempts', kind: 'num', width: '84px', cell: (effect) => effect.attempt },
    { head: 'Enqueued', kind: 'end', width: '104px', cell: (effect) => <When at={effect.createdAt} /> },
  ];
  return (
    <>
      <PageHead title="Effects" hint="Calls to the outside world, each under a key that never changes">
        {name && <PauseButton kind="effect" name={name} />}
      </PageHead>
      <FilterBox
        list="effects"
        value={q}
        onChange={(value) => (location.hash = href('effects', { q: value }))}
      />
      <Destinations />
      <Hints of={pages.last?.hints} />
      {fault && <Fault error={fault} />}
      <Bulk select={select} noun="effect" onAll={() => attempt(all)}>
        {can.decide && parked.length > 0 && (
          <button type="button" onClick={() => setDoing({ what: 'decide', rows: parked })}>
            Decide about {parked.length}…
          </button>
        )}
        {can.revive && dead.length > 0 && (
          <button type="button" onClick={() => setDoing({ what: 'revive', rows: dead })}>
            Revive {dead.length}…
          </button>
        )}
        {can.giveUp && dead.length > 0 && (
          <button type="button" onClick={() => setDoing({ what: 'give-up', rows: dead })}>
            Give up {dead.length}…
          </button>
        )}
        {can.park && waiting.length > 0 && (
          <button type="button" onClick={() => setDoing({ what: 'park', rows: waiting })}>
            Park {waiting.length}…
          </button>
        )}
        {can.cancel && waiting.length > 0 && (
          <button type="button" onClick={() => setDoing({ what: 'cancel', rows: waiting })}>
            Cancel {waiting.length}…
          </button>
        )}
        <Export name="effects" rows={chosen} />
      </Bulk>
      <Paged key={q} pages={pages} empty={<Empty title="No effects">Handlers enqueue them.</Empty>}>
        {(effects) => (
          <Table label="Effects" rows={effects} idOf={({ id }) => id} columns={columns} select={select} />
        )}
      </Paged>
      {doing?.what === 'decide' && <Decide rows={doing.rows} onClose={close} />}
      {doing?.what === 'park' && <ParkDialog rows={doing.rows} onClose={close} />}
      {doing?.what === 'cancel' && <CancelDialog effects={doing.rows} onClose={close} />}
      {doing?.what === 'revive' && <ReviveDialog rows={doing.rows} onClose={close} />}
      {doing?.what === 'give-up' && <GiveUpDialog ids={doing.rows.map(({ id }) => id)} onClose={close} />}
    </>
  );
}

export function Select(props: {
  label: string;
  value: string;
  of: string[];
  onChange: (value: string) => void;
}) {
  return (
    <label>
      {props.label}
      <select value={props.value} onChange={(event) => props.onChange(event.currentTarget.value)}>
        <option value="">all</option>
        {props.of.map((one) => (
          <option key={one} value={one}>
            {one}
          </option>
        ))}
      </select>
    </label>
  );
}
