import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan } from '../app-context.ts';
import { plural } from '../format.ts';
import type { Destination } from '../types.ts';
import { reloadAll, useQuery } from '../use-query.ts';
import { ActDialog } from './act-dialog.tsx';
import { Foreign, Panel, State, When } from './ui.tsx';

/** Destinations of effects that are not called as usual; nothing where there are none. */
export function Destinations() {
  const canResume = useCan('pause');
  const [resumed, setResumed] = useState<string>();
  const query = useQuery('destinations', api.destinations, 10_000);
  const held = (query.data?.destinations ?? []).filter(
    ({ failures, notBefore }) => failures > 0 || notBefore,
  );
  if (held.length === 0) return null;
  return (
    <Panel title="Destinations">
      {held.map((one) => (
        <div key={one.name} class="row">
          <span class="row-main">
            <strong>
              <Foreign text={one.name} />
            </strong>{' '}
            {one.state === 'open' && <State of="paused" />} <span class="hint">{stateOf(one)}</span>
            {one.notBefore && !isNever(one) && (
              <span class="hint">
                {' '}
                Next call <When at={one.notBefore} />.
              </span>
            )}
            {one.error && (
              <span class="block hint">
                <Foreign text={one.error} />
              </span>
            )}
          </span>
          {canResume && (
            <button type="button" aria-label={`Call ${one.name} again`} onClick={() => setResumed(one.name)}>
              Call again…
            </button>
          )}
        </div>
      ))}
      {resumed !== undefined && (
        <ActDialog
          title={`Call ${resumed} again`}
          verb="Call again"
          total={1}
          onClose={() => (setResumed(undefined), reloadAll())}
          steps={async function* (reason) {
            await api.pause('destination', resumed, false, reason);
            yield { done: 1 };
            return 'It is called again.';
          }}
        >
          <p>
            Rows that wait for it are sent within ten minutes, up to its rate. After as many failures it waits
            again.
          </p>
        </ActDialog>
      )}
    </Panel>
  );
}

/** It asked for no more calls. */
const isNever = ({ notBefore }: Destination) => notBefore?.startsWith('9999') === true;

function stateOf(one: Destination): string {
  const { state, failures } = one;
  if (state === 'closed') return `${plural(failures, 'failure')} in a row.`;
  return isNever(one) ? 'It wants no more calls.' : `${plural(failures, 'failure')}: only probes are sent.`;
}
