import { useEffect, useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan } from '../app-context.ts';
import { plural } from '../format.ts';
import { href } from '../router.ts';
import type { Conflict, Content, EventDetail } from '../types.ts';
import { ContentView } from './content-view.tsx';
import { Facts, Fault, Foreign, Panel, When } from './ui.tsx';

/** Deliveries that contradict what is known of the event. */
export function Conflicts(props: { event: EventDetail; onCompare: (conflict: Conflict) => void }) {
  const canReveal = useCan('reveal');
  const { bytes, conflicts } = props.event;
  return (
    <Panel title="Conflicts">
      {conflicts.map((conflict) => (
        <div key={conflict.kind + conflict.sha256}>
          <p class="row">
            <span>
              {conflict.kind === 'other-bytes' ? 'Came with other bytes' : 'Bytes known under another id'},{' '}
              {plural(conflict.deliveries, 'time')}; the first are kept.
            </span>
            <When at={conflict.lastAt} />
          </p>
          {conflict.otherId !== null && <a href={href(`event/${conflict.otherId}`)}>The other event</a>}
          {canReveal && conflict.kept && bytes !== null && (
            <p>
              <button type="button" onClick={() => props.onCompare(conflict)}>
                Compare the bodies
              </button>
              <span class="faint"> the audit records it</span>
            </p>
          )}
        </div>
      ))}
    </Panel>
  );
}

/** The body that the event has and one that contradicts it, side by side, and the later headers that differ. */
export function Comparison({ event, conflict }: { event: EventDetail; conflict: Conflict }) {
  const [bodies, setBodies] = useState<readonly Content[]>();
  const [error, setError] = useState<unknown>();
  useEffect(() => {
    const first = event.body ?? api.reveal({ event: event.id });
    const later = api.reveal({ event: event.id, conflict: conflict.sha256 });
    Promise.all([first, later]).then(setBodies, setError);
  }, [event.id, conflict.sha256]);
  const headers = Object.entries(conflict.headers ?? {}).filter(
    ([name, value]) => event.headers[name] !== value,
  );
  return (
    <Panel title="Two bodies of one id">
      {error !== undefined && <Fault error={error as never} />}
      {bodies !== undefined && (
        <div class="side-by-side">
          {bodies.map((content, index) => (
            <section key={index}>
              <h3>{index === 0 ? 'First, and processed' : 'Came later'}</h3>
              <ContentView content={content} label={index === 0 ? 'First body' : 'Later body'} />
            </section>
          ))}
        </div>
      )}
      {headers.length > 0 && (
        <Facts of={headers.map(([name, value]) => [`${name}, later`, <Foreign text={value} />])} />
      )}
    </Panel>
  );
}
