import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan } from '../app-context.ts';
import { ActDialog } from '../parts/act-dialog.tsx';
import { Empty, Facts, Foreign, Loaded, PageHead, Panel, State, When } from '../parts/ui.tsx';
import { ago, bytes, count, duration } from '../format.ts';
import { href } from '../router.ts';
import type { Source } from '../types.ts';
import { useQuery } from '../use-query.ts';

export function Sources() {
  const query = useQuery('sources', api.sources, 10_000);
  const canPause = useCan('pause');
  const [pausing, setPausing] = useState<{ name: string; paused: boolean } | undefined>();
  return (
    <>
      <PageHead title="Sources" hint="Configured endpoints" />
      <Loaded query={query}>
        {({ sources, paused }) => (
          <div class="grid">
            {sources.map((source) => {
              const isPaused = paused.some((one) => one.kind === 'source' && one.name === source.name);
              return (
                <Panel
                  key={source.name}
                  title={source.name}
                  aside={
                    <span class="page-actions">
                      {isPaused && <State of="paused" />}
                      {canPause && (
                        <button
                          type="button"
                          class="quiet"
                          onClick={() => setPausing({ name: source.name, paused: !isPaused })}
                        >
                          {isPaused ? 'Resume…' : 'Pause…'}
                        </button>
                      )}
                    </span>
                  }
                >
                  <SourceFacts source={source} />
                </Panel>
              );
            })}
          </div>
        )}
      </Loaded>
      {pausing && (
        <ActDialog
          title={`${pausing.paused ? 'Pause' : 'Resume'} ${pausing.name}`}
          verb={pausing.paused ? 'Pause' : 'Resume'}
          total={1}
          onClose={() => (setPausing(undefined), query.reload())}
          steps={async function* (reason) {
            await api.pause('source', pausing.name, pausing.paused, reason);
            yield { done: 1 };
            return pausing.paused ? 'Paused.' : 'Resumed.';
          }}
        >
          <p>
            {pausing.paused ? 'Events are still taken in; their handlers wait.' : 'What waited is run now.'}
          </p>
        </ActDialog>
      )}
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
          [
            'Handlers',
            source.handlers.length === 0
              ? 'none'
              : source.handlers.map((one) => `${one.name} (${one.types.join(', ')})`).join('; '),
          ],
        ]}
      />
      <h3>Secrets</h3>
      {source.secrets.length === 0 ? (
        <p class="hint">None has verified anything yet.</p>
      ) : (
        <ul class="rows">
          {source.secrets.map((secret) => (
            <li key={secret.fingerprint} class="row">
              <span>
                <code>{secret.fingerprint}</code>
                {secret.configured === false && <span class="tag warn">no longer configured</span>}
              </span>
              <span class="hint">
                {secret.lastAt
                  ? `last used ${ago(secret.lastAt)}, ${count(secret.deliveries)} deliveries`
                  : 'not used yet'}
              </span>
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
        {({ instances }) =>
          instances.length === 0 ? (
            <Empty title="No process has been seen" />
          ) : (
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
          )
        }
      </Loaded>
    </>
  );
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
