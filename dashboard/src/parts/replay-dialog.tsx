import { useState } from 'preact/hooks';
import { api, type EventKey } from '../api.ts';
import { useMeta } from '../app-context.ts';
import { plural } from '../format.ts';
import { useQuery } from '../use-query.ts';
import { ActDialog, inParts } from './act-dialog.tsx';
import { Dialog, Fault } from './ui.tsx';

const PART = 50;

/** Says what a replay would run and what stays done, before it is asked for. For one event, or for those that a filter finds. */
export function ReplayDialog(props: {
  events?: EventKey[];
  filter?: string;
  onClose: (acted: boolean) => void;
}) {
  const { maxAtOnce } = useMeta();
  const [refire, setRefire] = useState('');
  const found = useQuery(`replay ${props.filter ?? ''} ${props.events?.[0]?.eventId ?? ''}`, async () => {
    const events = props.events ?? (await collect(props.filter ?? '', maxAtOnce));
    return { events, preview: await api.previewReplay(events) };
  });
  if (found.data === undefined) {
    return (
      <Dialog title="Replay" onClose={() => props.onClose(false)}>
        <div class="dialog-body">
          {found.error ? <Fault error={found.error} /> : <p role="status">Looking what would run…</p>}
        </div>
      </Dialog>
    );
  }
  const { events, preview } = found.data;
  const names = refire
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '');
  return (
    <ActDialog
      title={`Replay ${plural(events.length, 'event')}`}
      verb="Replay"
      total={events.length}
      onClose={props.onClose}
      steps={async function* (reason) {
        const acted = yield* inParts(events, PART, async (part) => {
          await api.replay(part, names, reason);
          return part.length;
        });
        return `${plural(acted, 'event')} replayed.`;
      }}
    >
      <p>Handlers run again, those that were added since too. Effects that are done stay done.</p>
      <pre class="preview" tabIndex={0} role="region" aria-label="What would run">
        {JSON.stringify(preview, null, 2)}
      </pre>
      <label>
        Effects to do once more although they are done <span class="faint">names, separated by commas</span>
        <input value={refire} onInput={(event) => setRefire(event.currentTarget.value)} />
      </label>
      {events.length >= maxAtOnce && <p>At most {maxAtOnce} at once: the newest are taken.</p>}
    </ActDialog>
  );
}

async function collect(filter: string, max: number): Promise<EventKey[]> {
  const events: EventKey[] = [];
  let after: string | undefined;
  do {
    const page = await api.events(filter, after);
    events.push(...page.events.map(({ source, tenant, eventId }) => ({ source, tenant, eventId })));
    after = page.next;
  } while (after !== undefined && events.length < max);
  return events.slice(0, max);
}
