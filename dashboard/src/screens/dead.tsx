import { useState } from 'preact/hooks';
import { api, collect } from '../api.ts';
import { useCan } from '../app-context.ts';
import { ActDialog } from '../parts/act-dialog.tsx';
import { Export } from '../parts/export.tsx';
import { FilterBox } from '../parts/filter-box.tsx';
import { PlaceOf, Spark } from '../parts/history.tsx';
import { Paged } from '../parts/more.tsx';
import { GiveUpDialog, ReviveDialog } from '../parts/revive-dialog.tsx';
import { Bulk, Table, type Column } from '../parts/table.tsx';
import { Empty, Facts, Fault, Foreign, Hints, PageHead, Panel, State, When } from '../parts/ui.tsx';
import { count, plural } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { DeadGroup, DeadRow } from '../types.ts';
import { usePages, type Page } from '../use-pages.ts';
import { reloadAll } from '../use-query.ts';
import { useAttempt } from '../use-attempt.ts';
import { useChosen, useSelection } from '../use-selection.ts';
import { zoneName } from '../zone.ts';
import { eventLink } from './event.tsx';

/** The server looks at the newest 10,000 dead rows. */
const MAX_ROWS = 10_000;

export function Dead({ route }: { route: Route }) {
  return route.id === undefined ? <GroupList route={route} /> : <Group fingerprint={route.id} />;
}

interface Groups extends Page<DeadGroup> {
  readonly hints?: string[];
  readonly rowsLookedAt?: number;
}

async function groupsOf(q: string, after?: string, signal?: AbortSignal): Promise<Groups> {
  const { groups, ...page } = await api.dead(q, after, signal);
  return { ...page, items: groups };
}

function GroupList({ route }: { route: Route }) {
  const q = route.query['q'] ?? '';
  const pages = usePages<DeadGroup, Groups>(
    `dead ${zoneName()} ${q}`,
    (after, signal) => groupsOf(q, after, signal),
    10_000,
  );
  return (
    <>
      <PageHead title="Dead letters" hint="Rows that no retry runs, grouped by their error" />
      <FilterBox list="dead" value={q} onChange={(value) => (location.hash = href('dead', { q: value }))} />
      <Hints of={pages.last?.hints} />
      <Paged
        key={q}
        pages={pages}
        older="Further groups"
        hint={
          pages.last?.rowsLookedAt && (
            <span class="hint">
              Only the newest {count(pages.last.rowsLookedAt)} dead rows were looked at. There are older ones.
            </span>
          )
        }
        empty={
          <Empty title={q === '' ? 'Nothing is dead' : 'No group matches'}>
            Work that used up its attempts, or failed for good, would show up here.
          </Empty>
        }
      >
        {(groups) => (
          <ul class="issues">
            {groups.map((group) => (
              <li key={group.fingerprint}>
                <a class="issue" href={href(`dead/${group.fingerprint}`)}>
                  <span class="issue-main">
                    <span class="issue-error">
                      <Foreign text={group.error ?? group.reason} lines={2} />
                    </span>
                    <span class="hint">
                      {group.name}, {(group.reason ?? '').replaceAll('-', ' ')}
                      {group.reopened && <span class="tag bad">again after it was resolved</span>}
                    </span>
                  </span>
                  <span class="issue-side">
                    <Spark hours={group.hours} />
                    <State of={group.state} />
                    <strong class="num">{count(group.count)}</strong>
                    <When at={group.lastAt} />
                  </span>
                </a>
              </li>
            ))}
          </ul>
        )}
      </Paged>
    </>
  );
}

interface Rows extends Page<DeadRow> {
  readonly group?: DeadGroup;
}

async function rowsOf(fingerprint: string, after?: string, signal?: AbortSignal): Promise<Rows> {
  const { rows, ...page } = await api.deadRows(fingerprint, after, signal);
  return { ...page, items: rows };
}

type Doing = { what: 'revive' | 'give-up'; rows: DeadRow[] } | DeadGroup['state'] | undefined;

function Group({ fingerprint }: { fingerprint: string }) {
  const pages = usePages<DeadRow, Rows>(
    `dead ${fingerprint}`,
    (after, signal) => rowsOf(fingerprint, after, signal),
    10_000,
  );
  const [doing, setDoing] = useState<Doing>();
  const canRevive = useCan('revive');
  const canGiveUp = useCan('give-up');
  const canMark = useCan('issue');
  const select = useSelection(fingerprint);
  const group = pages.first.data?.group;
  const all = pages.items;
  const [fault, attempt] = useAttempt();
  const chosen = useChosen(select, all);
  const close = () => (setDoing(undefined), reloadAll());
  /** Every row of the group, and not those alone that are shown. */
  const act = async (what: 'revive' | 'give-up') =>
    setDoing({ what, rows: await collect((after) => rowsOf(fingerprint, after), MAX_ROWS) });
  const pickAll = async () => {
    const found = await collect((after) => rowsOf(fingerprint, after), MAX_ROWS);
    pages.replace(found);
    select.onChange(new Set(found.map(({ id }) => id)));
  };
  return (
    <>
      <PageHead
        title={group?.name ?? 'Dead letters'}
        hint={group ? plural(group.count, 'dead row') : undefined}
      >
        {canMark && group && group.state !== 'acknowledged' && (
          <button type="button" onClick={() => setDoing('acknowledged')}>
            Acknowledge…
          </button>
        )}
        {canMark && group && group.state !== 'resolved' && (
          <button type="button" onClick={() => setDoing('resolved')}>
            Resolve…
          </button>
        )}
        {canMark && group && group.state !== 'open' && (
          <button type="button" onClick={() => setDoing('open')}>
            Reopen…
          </button>
        )}
        {canGiveUp && all.length > 0 && group?.reason !== 'given-up' && (
          <button type="button" onClick={() => attempt(() => act('give-up'))}>
            Give up {count(group?.count ?? all.length)}…
          </button>
        )}
        {canRevive && all.length > 0 && (
          <button type="button" class="primary" onClick={() => attempt(() => act('revive'))}>
            Revive {count(group?.count ?? all.length)}…
          </button>
        )}
      </PageHead>
      {group && (
        <Panel title="Error" aside={<State of={group.state} />}>
          <pre class="error" tabIndex={0} role="region" aria-label="Error">
            <Foreign text={group.error ?? group.reason} />
          </pre>
          {group.place && <PlaceOf place={group.place} />}
          <Facts
            of={[
              ['First seen', <When at={group.firstAt} />],
              ['Last seen', <When at={group.lastAt} />],
              ['Sources', <Foreign text={group.sources.join(', ')} />],
              group.types && group.types.length > 0 && ['Types', <Foreign text={group.types.join(', ')} />],
              group.instances &&
                group.instances.length > 0 && ['Instances', <Foreign text={group.instances.join(', ')} />],
              ['Last 24 hours', <Spark hours={group.hours} />],
              group.tenants.length > 0 && ['Tenants', <Foreign text={group.tenants.join(', ')} />],
            ]}
          />
          {group.note && (
            <p class="hint">
              {group.actor}: <Foreign text={group.note} />
            </p>
          )}
        </Panel>
      )}
      {fault && <Fault error={fault} />}
      <Bulk select={select} noun="row" onAll={() => attempt(pickAll)}>
        {canRevive && (
          <button type="button" onClick={() => setDoing({ what: 'revive', rows: chosen })}>
            Revive selected…
          </button>
        )}
        {canGiveUp && (
          <button type="button" onClick={() => setDoing({ what: 'give-up', rows: chosen })}>
            Give up selected…
          </button>
        )}
        <Export name="dead-letters" rows={chosen} />
      </Bulk>
      <Paged
        pages={pages}
        older="Older rows"
        empty={
          <Empty title="Nothing of this is dead any more">
            <a href={href('dead')}>All dead letters</a>
          </Empty>
        }
      >
        {(rows) => (
          <Table label="Dead rows" rows={rows} idOf={({ id }) => id} columns={COLUMNS} select={select} />
        )}
      </Paged>
      {typeof doing === 'object' && doing.what === 'revive' && (
        <ReviveDialog rows={doing.rows} fingerprint={fingerprint} onClose={close} />
      )}
      {typeof doing === 'object' && doing.what === 'give-up' && (
        <GiveUpDialog ids={doing.rows.map(({ id }) => id)} onClose={close} />
      )}
      {typeof doing === 'string' && (
        <ActDialog
          title={{ acknowledged: 'Acknowledge', resolved: 'Resolve', open: 'Reopen' }[doing]}
          verb={{ acknowledged: 'Acknowledge', resolved: 'Resolve', open: 'Reopen' }[doing]}
          total={1}
          onClose={close}
          steps={async function* (reason) {
            await api.issue(fingerprint, doing, reason);
            yield { done: 1 };
            return `Marked as ${doing}.`;
          }}
        >
          <p>
            {doing === 'resolved'
              ? 'It opens again by itself when another row dies of this error.'
              : doing === 'acknowledged'
                ? 'Others see that a person works on it.'
                : 'No person works on it any more.'}
          </p>
        </ActDialog>
      )}
    </>
  );
}

const COLUMNS: readonly Column<DeadRow>[] = [
  {
    head: 'Event',
    kind: 'mono',
    width: '30%',
    title: (row) => row.eventId ?? row.id,
    cell: (row) => eventLink(row.claimId, row.eventId ?? row.id),
  },
  { head: 'Error', kind: 'text', cell: (row) => row.error && <Foreign text={row.error} lines={1} /> },
  { head: 'Attempts', kind: 'num', width: '84px', cell: (row) => row.attempt },
  { head: 'Failed', kind: 'end', width: '104px', cell: (row) => <When at={row.failedAt} /> },
];
