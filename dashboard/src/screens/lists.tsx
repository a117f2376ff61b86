import { api } from '../api.ts';
import { PauseButton } from '../parts/pause-button.tsx';
import { Empty, Facts, Foreign, Loaded, PageHead, Panel, State, When } from '../parts/ui.tsx';
import { bytes, count, duration, plural } from '../format.ts';
import { href } from '../router.ts';
import type { Instance, Source } from '../types.ts';
import { useQuery } from '../use-query.ts';

export function Sources() {
  const query = useQuery('sources', api.sources, 10_000);
  return (
    <>
      <PageHead title="Sources" hint="Configured endpoints" />
      <Loaded query={query}>
        {({ sources, former }) => (
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
                  . Retention deletes what is kept of them.
                </p>
              </Panel>
            )}
            {sources.map((source) => (
              <Panel
                key={source.name}
                title={source.name}
                aside={<PauseButton kind="source" name={source.name} />}
              >
                <SourceFacts source={source} />
              </Panel>
            ))}
          </div>
        )}
      </Loaded>
    </>
  );
}

function SourceFacts({ source }: { source: Source }) {
  const { rates } = source;
  return (
    <>
      <Facts
        of={[
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
            'In 24 h',
            `${count(rates.handledDay)} handled, ${count(rates.duplicatesDay)} duplicates, ${count(rates.deadDay)} dead`,
          ],
          [
            'Rejected',
            <a href={href('rejections', { source: source.name })}>{count(rates.rejectedDay)} in 24 h</a>,
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
        <p class="hint">
          None: events are kept, and a handler that is added later can be given them by a replay.
        </p>
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
              <div class="table-wrap">
                <table class="cards">
                  <thead>
                    <tr>
                      <th scope="col">State</th>
                      <th scope="col">Host</th>
                      <th scope="col">Does</th>
                      <th scope="col" class="num">
                        In flight
                      </th>
                      <th scope="col">Node</th>
                      <th scope="col">Up since</th>
                      <th scope="col" class="end">
                        Seen
                      </th>
                    </tr>
                  </thead>
                  <tbody>
                    {instances.map((one) => (
                      <tr key={one.id}>
                        <td>
                          <State of={one.alive ? 'alive' : 'gone'} />
                        </td>
                        <td>
                          {one.host} <span class="faint">pid {one.pid}</span>
                        </td>
                        <td>
                          {one.relays ? 'receives and relays' : 'receives'},{' '}
                          {one.listens ? 'listening' : 'polling'}
                        </td>
                        <td class="num">{one.running}</td>
                        <td>{one.node}</td>
                        <td>
                          <When at={one.startedAt} />
                        </td>
                        <td class="end">
                          <When at={one.seenAt} />
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
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

export function Audit() {
  const query = useQuery('audit', () => api.audit(), 15_000);
  return (
    <>
      <PageHead title="Audit" hint="Who did what, and why" />
      <Loaded query={query}>
        {({ audit }) =>
          audit.length === 0 ? (
            <Empty title="Nothing was done yet" />
          ) : (
            <div class="table-wrap">
              <table class="cards">
                <thead>
                  <tr>
                    <th scope="col">Who</th>
                    <th scope="col">What</th>
                    <th scope="col">To what</th>
                    <th scope="col">Why</th>
                    <th scope="col">Outcome</th>
                    <th scope="col" class="end">
                      When
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {audit.map((row) => (
                    <tr key={row.id}>
                      <td>
                        <Foreign text={row.actor} />
                      </td>
                      <td>{row.action}</td>
                      <td class="mono ellipsis">
                        <Foreign text={row.target} lines={1} />
                      </td>
                      <td class="wide">
                        <Foreign text={row.reason} lines={2} />
                      </td>
                      <td class="wide">
                        <Foreign text={outcomeText(row.outcome)} lines={2} />
                      </td>
                      <td class="end">
                        <When at={row.at} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
    </>
  );
}

function outcomeText(outcome: Record<string, unknown> | null): string {
  if (outcome === null) return 'not known';
  return Object.entries(outcome)
    .filter(([name, value]) => name !== 'id' && value !== undefined)
    .map(([name, value]) => `${name} ${String(value)}`)
    .join(', ');
}
