import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan } from '../app-context.ts';
import { ActDialog } from '../parts/act-dialog.tsx';
import { FilterBox } from '../parts/filter-box.tsx';
import { Paged } from '../parts/more.tsx';
import { PauseButton } from '../parts/pause-button.tsx';
import { Table, type Column } from '../parts/table.tsx';
import { Empty, Facts, Foreign, Loaded, PageHead, Panel, State, When } from '../parts/ui.tsx';
import { bytes, count, duration, plural } from '../format.ts';
import { href, type Route } from '../router.ts';
import type { Audit as AuditRow, Instance, Source, SourcePage } from '../types.ts';
import { usePages, type Page } from '../use-pages.ts';
import { useQuery } from '../use-query.ts';
import { zoneName } from '../zone.ts';

interface SourceList extends Page<Source>, Omit<SourcePage, 'sources' | 'next'> {}

async function sourcesOf(q: string, after?: string, signal?: AbortSignal): Promise<SourceList> {
  const { sources, ...page } = await api.sources(q, after, signal);
  return { ...page, items: sources };
}

export function Sources({ route }: { route: Route }) {
  const q = route.query['q'] ?? '';
  const pages = usePages<Source, SourceList>(
    `sources ${q}`,
    (after, signal) => sourcesOf(q, after, signal),
    10_000,
  );
  const former = pages.first.data?.former ?? [];
  const total = pages.first.data?.total;
  return (
    <>
      <PageHead
        title="Sources"
        hint={total === undefined ? 'Configured endpoints' : plural(total, 'configured endpoint')}
      />
      <div class="filter" role="search">
        <input
          id="filter"
          type="search"
          aria-label="Search sources"
          placeholder="part of a name"
          value={q}
          onInput={(event) => location.replace(href('sources', { q: event.currentTarget.value }))}
        />
      </div>
      <Paged pages={pages} older="Further sources" empty={<Empty title="No source is called so" />}>
        {(sources) => (
          <div class="grid">
            {former.length > 0 && (
              <Panel title="Stored and not configured">
                <p>
                  No instance has configured {former.length === 1 ? 'this source' : 'these sources'} any more:{' '}
                  {former.map((name, at) => (
                    <span key={name}>
                      {at > 0 && ', '}
                      <Foreign text={name} />
                    </span>
                  ))}
                  . Retention deletes their claims.
                </p>
              </Panel>
            )}
            {sources.map((source) => (
              <Panel
                key={source.name}
                title={source.name}
                aside={
                  <span class="page-actions">
                    {source.hasList && <GapsButton source={source.name} />}
                    <PauseButton kind="source" name={source.name} />
                  </span>
                }
              >
                <SourceFacts source={source} />
              </Panel>
            ))}
          </div>
        )}
      </Paged>
    </>
  );
}

/** Claims what the provider's list has and no webhook has brought. */
function GapsButton({ source }: { source: string }) {
  const can = useCan('replay');
  const [asking, setAsking] = useState(false);
  if (!can) return null;
  return (
    <>
      <button
        type="button"
        class="quiet"
        aria-label={`Find gaps of ${source}`}
        onClick={() => setAsking(true)}
      >
        Find gaps…
      </button>
      {asking && (
        <ActDialog
          title={`Find gaps of ${source}`}
          verb="Find"
          total={1}
          onClose={() => setAsking(false)}
          steps={async function* (reason) {
            const { seen, claimed } = await api.findGaps(source, reason);
            yield { done: 1 };
            return `The provider lists ${plural(seen, 'event')}; ${count(claimed)} had never arrived, and are claimed now.`;
          }}
        >
          <p>Reads the provider's own list, and claims and handles the events that no webhook has brought.</p>
        </ActDialog>
      )}
    </>
  );
}

/** How a source does, from its last day. */
function Health({ source }: { source: Source }) {
  const { rates } = source;
  const faults = [
    rates.deadDay > 0 && `${count(rates.deadDay)} died`,
    rates.rejectedDay > rates.day && 'more is rejected than received',
  ].filter(Boolean);
  const state = faults.length > 0 ? 'in trouble' : rates.day > 0 ? 'ok' : 'quiet';
  return (
    <>
      <State of={state} /> <span class="hint">{faults.join(', ')}</span>
    </>
  );
}

function SourceFacts({ source }: { source: Source }) {
  const { rates } = source;
  return (
    <>
      <Facts
        of={[
          ['In 24 h', <Health source={source} />],
          [
            'Last event',
            source.lastAt ? (
              <>
                <When at={source.lastAt} /> <span class="faint">{source.lastType}</span>
              </>
            ) : (
              'none yet'
            ),
          ],
          [
            'Deliveries',
            <a href={href('events', { q: `source:${source.name}` })}>
              {count(rates.hour)} this hour, {count(rates.day)} in 24 h
            </a>,
          ],
          [
            'Work',
            `${count(rates.handledDay)} handled, ${count(rates.duplicatesDay)} duplicates, ${count(rates.deadDay)} dead`,
          ],
          [
            'Rejected',
            <a href={href('rejections', { q: `source:${source.name}` })}>
              {count(rates.rejectedDay)} in 24 h
            </a>,
          ],
          ['Scheme', <Foreign text={source.scheme} />],
          ['Retries', source.retries === 'own' ? 'ours' : 'the provider’s'],
          ['Kept for', duration(source.retentionMs)],
          ['Window', source.toleranceMs === null ? 'no time is signed' : `± ${duration(source.toleranceMs)}`],
          ['Largest body', bytes(source.maxBytes)],
        ]}
      />
      <h3>Handlers</h3>
      {source.handlers.length === 0 ? (
        <p class="hint">None: events are kept. Add a handler, then replay them.</p>
      ) : (
        <ul class="rows">
          {source.handlers.map((one) => (
            <li key={one.name} class="row">
              <span class="row-main">
                {one.name} <span class="hint">{one.types.join(', ')}</span>
              </span>
              <PauseButton kind="handler" name={one.name} />
            </li>
          ))}
        </ul>
      )}
      <h3>Secrets</h3>
      {source.secrets.length === 0 ? (
        <p class="hint">None has verified anything yet.</p>
      ) : (
        <ul class="rows">
          {source.secrets.map((secret) => (
            <li key={secret.fingerprint} class="row">
              <span class="row-main">
                {secret.position !== null && `${secret.position}. `}
                {secret.hint !== null && <Foreign text={secret.hint} />} <code>{secret.fingerprint}</code>
                {secret.configured === false && <span class="tag warn">no longer configured</span>}
                <span class="block hint">{secret.verdict}</span>
              </span>
              <span class="hint">{plural(secret.deliveries, 'delivery', 'deliveries')}</span>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

export function Relays() {
  const query = useQuery('relays', api.relays, 5_000);
  return (
    <>
      <PageHead title="Relays" hint="Running processes, by their sign of life" />
      <Loaded query={query}>
        {({ instances, leases, overdue }) =>
          instances.length === 0 ? (
            <Empty title="No process has been seen" />
          ) : (
            <>
              <Table label="Relays" rows={instances} idOf={({ id }) => id} columns={RELAY_COLUMNS} />
              <div class="grid">
                <Panel title="Lag">
                  {overdue.length === 0 ? (
                    <Empty title="Nothing is overdue" />
                  ) : (
                    <ul class="rows">
                      {overdue.map((one) => (
                        <li key={one.name} class="row">
                          <span>{one.name}</span>
                          <span class="hint">due for {duration(one.ageMs)}</span>
                        </li>
                      ))}
                    </ul>
                  )}
                </Panel>
                <Panel title="Leases">
                  {leases.length === 0 ? (
                    <Empty title="None is held">Jobs that one process at a time does.</Empty>
                  ) : (
                    <ul class="rows">
                      {leases.map((lease) => (
                        <li key={lease.name} class="row">
                          <span>
                            {lease.name} <span class="faint">by {holder(lease.owner, instances)}</span>
                          </span>
                          <span class="hint">
                            ends <When at={lease.until} />
                          </span>
                        </li>
                      ))}
                    </ul>
                  )}
                </Panel>
              </div>
            </>
          )
        }
      </Loaded>
    </>
  );
}

function holder(owner: string, instances: Instance[]): string {
  const one = instances.find(({ id }) => id === owner);
  return one ? `${one.host}, pid ${one.pid}` : owner.slice(0, 8);
}

const RELAY_COLUMNS: readonly Column<Instance>[] = [
  { head: 'State', width: '100px', cell: (one) => <State of={one.alive ? 'alive' : 'gone'} /> },
  {
    head: 'Host',
    title: (one) => one.host,
    cell: (one) => (
      <>
        {one.host} <span class="faint">pid {one.pid}</span>
      </>
    ),
  },
  {
    head: 'Does',
    width: '24%',
    cell: (one) =>
      `${one.relays ? 'receives and relays' : 'receives'}, ${one.listens ? 'listening' : 'polling'}`,
  },
  { head: 'In flight', kind: 'num', width: '84px', cell: (one) => one.running },
  { head: 'Node', width: '96px', cell: (one) => one.node },
  { head: 'Up since', width: '104px', cell: (one) => <When at={one.startedAt} /> },
  { head: 'Seen', kind: 'end', width: '104px', cell: (one) => <When at={one.seenAt} /> },
];

async function auditOf(q: string, after?: string, signal?: AbortSignal): Promise<Page<AuditRow>> {
  const { audit, ...page } = await api.audit(q, after, signal);
  return { ...page, items: audit };
}

export function Audit({ route }: { route: Route }) {
  const q = route.query['q'] ?? '';
  const pages = usePages<AuditRow, Page<AuditRow>>(
    `audit ${zoneName()} ${q}`,
    (after, signal) => auditOf(q, after, signal),
    15_000,
  );
  return (
    <>
      <PageHead title="Audit" hint="Actions of people, with their reasons" />
      <FilterBox list="audit" value={q} onChange={(value) => (location.hash = href('audit', { q: value }))} />
      <Paged
        key={q}
        pages={pages}
        empty={<Empty title={q === '' ? 'Nothing was done yet' : 'No row matches'} />}
      >
        {(rows) => <Table label="Audit" rows={rows} idOf={({ id }) => id} columns={AUDIT_COLUMNS} />}
      </Paged>
    </>
  );
}

const AUDIT_COLUMNS: readonly Column<AuditRow>[] = [
  { head: 'Who', width: '15%', title: (row) => row.actor, cell: (row) => <Foreign text={row.actor} /> },
  { head: 'What', width: '120px', cell: (row) => row.action },
  {
    head: 'To what',
    kind: 'mono',
    width: '24%',
    title: (row) => row.target,
    cell: (row) => <Target row={row} />,
  },
  { head: 'Why', kind: 'text', cell: (row) => <Foreign text={row.reason} lines={2} /> },
  {
    head: 'Outcome',
    kind: 'text',
    width: '18%',
    cell: (row) => <Foreign text={outcomeText(row.outcome)} lines={2} />,
  },
  { head: 'When', kind: 'end', width: '104px', cell: (row) => <When at={row.at} /> },
];

const UUID = /[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

/** The target of an action, with a link to it. */
function Target({ row }: { row: AuditRow }) {
  const to = targetLink(row);
  return to === undefined ? (
    <Foreign text={row.target} lines={1} />
  ) : (
    <a href={to}>
      <Foreign text={row.target} lines={1} />
    </a>
  );
}

export function targetLink({ action, target }: Pick<AuditRow, 'action' | 'target'>): string | undefined {
  if (action.startsWith('issue ')) return href(`dead/${target}`);
  if (action === 'pause' || action === 'resume') {
    const [kind, name] = target.split(' ', 2);
    return kind === 'effect' || kind === 'destination'
      ? href('effects', { q: `effect:${name}` })
      : href('sources');
  }
  if (action === 'verify again') return href('rejections', { q: `source:${target}` });
  const [id] = UUID.exec(target) ?? [];
  if (id !== undefined) return href('events', { q: `id:${id}` });
  // Source, tenant if any, event id.
  const parts = target.replace(/^\d+ events, | first$/g, '').split(' ');
  if (parts.length < 2 || target.includes('{')) return undefined;
  return href('events', { q: `source:${parts[0]} id:"${parts.at(-1)!}"` });
}

function outcomeText(outcome: Record<string, unknown> | null): string {
  if (outcome === null) return 'not known';
  return Object.entries(outcome)
    .filter(([name, value]) => name !== 'id' && value !== undefined)
    .map(([name, value]) => `${name} ${valueText(value)}`)
    .join(', ');
}

/** Rows that were left out come with the reason of each. */
function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join('; ');
  if (typeof value !== 'object' || value === null) return String(value);
  return Object.entries(value)
    .map(([name, one]) => (name === 'id' ? `${String(one).slice(0, 8)}…:` : valueText(one)))
    .join(' ');
}
