import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan, useMeta } from '../app-context.ts';
import { ActDialog } from '../parts/act-dialog.tsx';
import { PauseButton } from '../parts/pause-button.tsx';
import { Empty, Foreign, Loaded, PageHead, State, When } from '../parts/ui.tsx';
import { href, type Route } from '../router.ts';
import type { Effect } from '../types.ts';
import { useQuery } from '../use-query.ts';
import { eventLink } from './event.tsx';

const STATES = ['pending', 'done', 'parked', 'dead', 'erased'];

export function Effects({ route }: { route: Route }) {
  const { effects } = useMeta();
  const canDecide = useCan('decide');
  const [deciding, setDeciding] = useState<Effect | undefined>();
  const { name = '', state = '' } = route.query;
  const query = useQuery(`effects ${name} ${state}`, () => api.effects({ name, state }), 10_000);
  const go = (change: Record<string, string>) =>
    (location.hash = href('effects', { name, state, ...change }));
  return (
    <>
      <PageHead title="Effects" hint="Calls to the outside world, each under a key that never changes" />
      <div class="choices">
        <Select label="Effect" value={name} of={effects} onChange={(value) => go({ name: value })} />
        <Select label="State" value={state} of={STATES} onChange={(value) => go({ state: value })} />
        {name !== '' && <PauseButton kind="effect" name={name} />}
      </div>
      <Loaded query={query}>
        {(data) =>
          data.effects.length === 0 ? (
            <Empty title="No effects">Handlers enqueue them; the newest 5,000 rows are looked at.</Empty>
          ) : (
            <div class="table-wrap">
              <table class="cards">
                <thead>
                  <tr>
                    <th scope="col">State</th>
                    <th scope="col">Effect</th>
                    <th scope="col">Event</th>
                    <th scope="col">Error</th>
                    <th scope="col" class="num">
                      Attempts
                    </th>
                    <th scope="col" class="end">
                      Enqueued
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {data.effects.map((effect) => (
                    <tr key={effect.id}>
                      <td>
                        <State of={effect.state} />
                        {canDecide && effect.state === 'parked' && (
                          <button type="button" class="quiet" onClick={() => setDeciding(effect)}>
                            Decide…
                          </button>
                        )}
                      </td>
                      <td>
                        {effect.name}
                        {effect.key && <code> {effect.key}</code>}
                      </td>
                      <td class="mono ellipsis">{eventLink(effect.claimId, effect.eventId ?? '–')}</td>
                      <td class="wide">
                        <Foreign text={effect.state === 'done' ? null : effect.error} lines={1} />
                      </td>
                      <td class="num">{effect.attempt}</td>
                      <td class="end">
                        <When at={effect.createdAt} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Loaded>
      {deciding && <Decide effect={deciding} onClose={() => (setDeciding(undefined), query.reload())} />}
    </>
  );
}

function Decide({ effect, onClose }: { effect: Effect; onClose: () => void }) {
  const [decision, setDecision] = useState<'retry' | 'done' | 'dead'>('done');
  return (
    <ActDialog
      title={`Decide about ${effect.name}`}
      verb="Decide"
      total={1}
      onClose={onClose}
      steps={async function* (reason) {
        const { decided } = await api.decide(effect.id, decision, reason);
        yield { done: 1 };
        return decided ? 'Decided.' : 'It is not parked any more.';
      }}
    >
      <p>
        {effect.reason === 'key-expired'
          ? 'The other side may have forgotten the key: another attempt may do it twice. Look there, then say:'
          : 'It was begun, and nobody knows whether it happened: another attempt may do it twice. Look at the other side, then say:'}
      </p>
      {(
        [
          ['done', 'It happened'],
          ['retry', 'It did not: do it again, under the same key'],
          ['dead', 'Leave it'],
        ] as const
      ).map(([value, text]) => (
        <label key={value} class="choice">
          <input
            type="radio"
            name="decision"
            checked={decision === value}
            onChange={() => setDecision(value)}
          />
          {text}
        </label>
      ))}
    </ActDialog>
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
