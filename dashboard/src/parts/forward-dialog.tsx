import { useRef, useState } from 'preact/hooks';
import { api, collectEvents, newId, type EventKey } from '../api.ts';
import { useCan, useMeta } from '../app-context.ts';
import { count, plural } from '../format.ts';
import { useQuery } from '../use-query.ts';
import { ActDialog } from './act-dialog.tsx';
import { Dialog, Fault } from './ui.tsx';

/** Requests one after the other: a part is over before the page's own patience is. */
const PART = 5;

/** Sends one event, or those that a filter finds, on to another URL as they came. */
export function ForwardDialog(props: {
  events?: EventKey[];
  filter?: string;
  /** Our id of the one event, whose copy may be edited. */
  id?: string;
  onClose: (acted: boolean) => void;
}) {
  const { maxAtOnce } = useMeta();
  const [url, setUrl] = useState('');
  const [secret, setSecret] = useState('');
  const [body, setBody] = useState<string>();
  const canReveal = useCan('reveal');
  const found = useQuery(
    `to forward ${props.events === undefined ? `filter ${props.filter ?? ''}` : JSON.stringify(props.events)}`,
    () => (props.events ? Promise.resolve(props.events) : collectEvents(props.filter ?? '', maxAtOnce)),
    undefined,
    true,
  );
  const edit = async (id: string) => {
    const content = await api.reveal({ event: id }).catch(() => undefined);
    setBody(content?.encoding === 'utf8' && !content.cut ? content.text : '');
  };
  const sofar = useRef({ id: newId(), at: 0, forwarded: 0, not: [] as string[] }).current;
  const events = found.data;
  if (events === undefined) {
    return (
      <Dialog title="Forward" onClose={() => props.onClose(false)}>
        <div class="dialog-body">
          {found.error ? <Fault error={found.error} /> : <p role="status">Looking for them…</p>}
        </div>
      </Dialog>
    );
  }
  return (
    <ActDialog
      title={`Forward ${plural(events.length, 'event')}`}
      verb="Forward"
      total={events.length}
      onClose={props.onClose}
      steps={async function* (reason) {
        // After a failure the next run goes on with the part that failed.
        while (sofar.at < events.length) {
          const report = await api.forward(events.slice(sofar.at, sofar.at + PART), url, reason, {
            id: sofar.id,
            secret: secret || undefined,
            body,
          });
          // Those whose answer was lost are skipped the second time.
          sofar.forwarded += report.forwarded + report.skipped;
          sofar.not.push(
            ...[...report.failed, ...report.refused].map((one) => `${one.event.eventId}: ${one.why}`),
          );
          sofar.at = Math.min(sofar.at + PART, events.length);
          yield { done: sofar.at };
          if (report.gaveUp) break;
        }
        const { forwarded, not } = sofar;
        const rest = not.length > 0 ? ` Not forwarded: ${count(not.length)}, the first ${not[0]}.` : '';
        return `${plural(forwarded, 'event')} forwarded.${rest}`;
      }}
    >
      <p>
        The stored bytes and headers are sent to another address; nothing changes here. Hidden content can be
        read there.
      </p>
      <label>
        URL
        <input
          type="url"
          required
          placeholder="https://"
          value={url}
          onInput={(event) => setUrl(event.currentTarget.value)}
        />
      </label>
      <label>
        The target's secret, to sign anew <span class="faint">optional; not stored</span>
        <input
          type="password"
          autocomplete="off"
          value={secret}
          onInput={(event) => setSecret(event.currentTarget.value)}
        />
      </label>
      {props.id !== undefined && body === undefined && (
        <p>
          <button type="button" onClick={() => (canReveal ? void edit(props.id!) : setBody(''))}>
            Edit the copy
          </button>
        </p>
      )}
      {body !== undefined && (
        <label>
          The copy{' '}
          <span class="faint">the stored body does not change; the audit says that the copy was edited</span>
          <textarea rows={10} value={body} onInput={(event) => setBody(event.currentTarget.value)} />
        </label>
      )}
      {events.length >= maxAtOnce && <p>At most {count(maxAtOnce)} at once: the newest are taken.</p>}
    </ActDialog>
  );
}
