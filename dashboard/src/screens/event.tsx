import { useEffect, useState } from 'preact/hooks';
import { api, type EventKey } from '../api.ts';
import { useCan, useMeta } from '../app-context.ts';
import { ActDialog } from '../parts/act-dialog.tsx';
import { visible } from '../text.ts';
import { Comparison, Conflicts } from '../parts/conflicts.tsx';
import { ContentView } from '../parts/content-view.tsx';
import { History, PlaceOf } from '../parts/history.tsx';
import { Decide, ParkDialog } from '../parts/decide-dialog.tsx';
import { ForwardDialog } from '../parts/forward-dialog.tsx';
import { CancelDialog, ReviveDialog } from '../parts/revive-dialog.tsx';
import { ReplayDialog } from '../parts/replay-dialog.tsx';
import {
  Copy,
  Empty,
  Facts,
  Fault,
  Foreign,
  Loaded,
  Moment,
  PageHead,
  Panel,
  State,
  When,
} from '../parts/ui.tsx';
import { curlOf } from '../curl.ts';
import { bytes, count, duration, plural } from '../format.ts';
import { titled } from '../title.ts';
import { href, type Route } from '../router.ts';

import type { Conflict, Content, ErasureReport, EventDetail, EventRow } from '../types.ts';
import { useQuery } from '../use-query.ts';

export function Event({ route }: { route: Route }) {
  const id = route.id ?? '';
  const query = useQuery(`event ${id}`, (signal) => api.event(id, signal), 5_000);
  return <Loaded query={query}>{(event) => <Detail event={event} reload={query.reload} />}</Loaded>;
}

type Doing = 'revive' | 'replay' | 'forward' | 'erase' | 'cancel' | 'park' | 'decide' | undefined;

function useTitle(title: string): void {
  useEffect(() => titled(title), [title]);
}

function Detail({ event, reload }: { event: EventDetail; reload: () => void }) {
  useTitle(`${event.type || 'Event'} ${event.eventId}`);
  const [doing, setDoing] = useState<Doing>();
  const [compared, setCompared] = useState<Conflict>();
  const can = {
    revive: useCan('revive'),
    replay: useCan('replay'),
    forward: useCan('forward'),
    erase: useCan('erase'),
    cancel: useCan('cancel'),
    park: useCan('park'),
    decide: useCan('decide'),
  };
  const idle = event.rows.filter(({ state, leasedBy }) => state === 'pending' && leasedBy === null);
  const parked = event.rows.filter(({ state }) => state === 'parked');
  const waiting = event.rows.filter(isCallable);
  const dead = event.rows.filter((row) => row.state === 'dead');
  const close = () => {
    setDoing(undefined);
    reload();
  };
  return (
    <>
      <PageHead
        title={visible(event.type) || 'Event'}
        hint={`${event.source}${event.tenant ? ` / ${event.tenant}` : ''}`}
      >
        {can.revive && dead.length > 0 && (
          <button type="button" class="primary" onClick={() => setDoing('revive')}>
            Revive…
          </button>
        )}
        {can.replay && !event.erasedAt && (
          <button type="button" onClick={() => setDoing('replay')}>
            Replay…
          </button>
        )}
        {can.forward && !event.erasedAt && (
          <button type="button" onClick={() => setDoing('forward')}>
            Forward…
          </button>
        )}
        {can.decide && parked.length > 0 && (
          <button type="button" class="primary" onClick={() => setDoing('decide')}>
            Decide…
          </button>
        )}
        {can.park && idle.length > 0 && (
          <button type="button" onClick={() => setDoing('park')}>
            Park…
          </button>
        )}
        {can.cancel && waiting.length > 0 && (
          <button type="button" onClick={() => setDoing('cancel')}>
            Cancel {plural(waiting.length, 'effect')}…
          </button>
        )}
        {can.erase && !event.erasedAt && (
          <button type="button" class="danger" onClick={() => setDoing('erase')}>
            Erase…
          </button>
        )}
      </PageHead>
      <div class="columns">
        <div>
          <Panel title="Timeline">
            <Timeline event={event} />
          </Panel>
          <History event={event} />
          {compared && <Comparison key={compared.sha256} event={event} conflict={compared} />}
          <Body event={event} />
        </div>
        <div>
          <Panel title="Event">
            <Facts
              of={[
                ['State', <State of={event.state} />],
                ['Outcome', <Foreign text={event.outcome} />],
                ['Event id', <Id text={event.eventId} />],
                ['Our id', <Id text={event.id} />],
                ['Received', <When at={event.receivedAt} />],
                ['Happened', <When at={event.occurredAt} />],
                [
                  'Verified by',
                  <>
                    <code title="Fingerprint of the secret">secret {event.verifiedBy}</code>
                    {event.scheme && <span class="block hint">{event.scheme}</span>}
                  </>,
                ],
                ['Came again', again(event)],
                event.origin !== 'delivery' && ['Origin', event.origin],
              ]}
            />
          </Panel>
          <Panel title="Headers">
            <Facts
              of={Object.entries(event.headers).map(([name, value]) => [name, <Foreign text={value} />])}
            />
            <p class="hint">
              Only these are kept. A signature is among them where the source names its header in keepHeaders.
            </p>
          </Panel>
          {event.conflicts.length > 0 && <Conflicts event={event} onCompare={setCompared} />}
        </div>
      </div>
      {doing === 'decide' && <Decide rows={parked} onClose={close} />}
      {doing === 'park' && <ParkDialog rows={idle} onClose={close} />}
      {doing === 'cancel' && <CancelDialog effects={waiting} onClose={close} />}
      <Dialogs event={event} doing={doing} dead={dead} close={close} />
    </>
  );
}

/** An effect that waits for its first or next attempt. */
export function isCallable({
  kind,
  state,
  leasedBy,
}: {
  kind: string;
  state: string;
  leasedBy: string | null;
}): boolean {
  return kind === 'effect' && state === 'pending' && leasedBy === null;
}

function Dialogs(props: { event: EventDetail; doing: Doing; dead: EventRow[]; close: () => void }) {
  const { event, doing, dead, close } = props;
  const key: EventKey = { source: event.source, tenant: event.tenant, eventId: event.eventId };
  if (doing === 'replay') return <ReplayDialog events={[key]} onClose={close} />;
  if (doing === 'forward') return <ForwardDialog events={[key]} id={event.id} onClose={close} />;
  if (doing === 'revive') return <ReviveDialog rows={dead} onClose={close} />;
  if (doing === 'erase') {
    return (
      <ActDialog
        title="Erase"
        verb="Erase for good"
        danger
        typed={event.eventId}
        total={1}
        onClose={close}
        steps={async function* (reason) {
          const report = await api.erase(key, reason);
          yield { done: 1 };
          return erased(report);
        }}
      >
        <p>
          Body, headers and payloads are removed, and pending work is cancelled. The id stays, so a redelivery
          is a duplicate. This cannot be undone.
        </p>
      </ActDialog>
    );
  }
  return null;
}

/** What a person still has to see to after an erasure. */
function erased({ outcome, cancelled, possiblySent, sent }: ErasureReport): string {
  if (outcome !== 'erased')
    return outcome === 'already' ? 'It was erased before.' : 'There is no such event.';
  const names = (of: { name: string }[]) => [...new Set(of.map((one) => one.name))].join(', ');
  return [
    'Erased.',
    cancelled.length > 0 && `Cancelled: ${names(cancelled)}.`,
    sent.length > 0 && `Sent before, so other services have it: ${names(sent)}.`,
    possiblySent.length > 0 && `Possibly sent: ${names(possiblySent)}.`,
  ]
    .filter(Boolean)
    .join(' ');
}

function Id({ text }: { text: string }) {
  return (
    <span class="id">
      <code>
        <Foreign text={text} />
      </code>
      <Copy text={text} />
    </span>
  );
}

function again(event: EventDetail) {
  if (event.duplicates === 0) return 'never';
  return (
    <>
      {plural(event.duplicates, 'time')}, last <When at={event.lastDuplicateAt} />
    </>
  );
}

function Timeline({ event }: { event: EventDetail }) {
  const handlers = event.rows.filter((row) => row.kind === 'handler');
  const known = new Set(event.rows.map((row) => row.id));
  const loose = event.rows.filter((row) => row.kind === 'effect' && !known.has(row.parentId ?? ''));
  return (
    <ol class="timeline">
      <li class="good">
        <div class="row">
          <strong>Claimed</strong>
          <Moment at={event.receivedAt} />
        </div>
        <p class="hint">
          Verified by secret {event.verifiedBy}; {plural(event.owed, 'handler')} owed.
          {event.duplicates > 0 && ` Came again ${plural(event.duplicates, 'time')}.`}
        </p>
      </li>
      {event.owed === 0 && handlers.length === 0 && (
        <li class="mute">
          <strong>Skipped</strong>
          <p class="hint">
            No handler matched.
            {event.matches.length > 0 && ` Today ${event.matches.join(', ')} would: replay it.`}
          </p>
        </li>
      )}
      {handlers.map((row) => (
        <RowEntry key={row.id} row={row} all={event.rows} />
      ))}
      {loose.map((row) => (
        <RowEntry key={row.id} row={row} all={event.rows} />
      ))}
    </ol>
  );
}

const DOT: Record<string, string> = { done: 'good', dead: 'bad', parked: 'warn', pending: 'busy' };

function RowEntry({ row, all }: { row: EventRow; all: EventRow[] }) {
  const effects = all.filter((one) => one.parentId === row.id);
  return (
    <li class={DOT[row.state] ?? 'mute'}>
      <div class="row">
        <span class="row-main">
          <strong>{row.name}</strong>
          {row.key !== '' && <code>{row.key}</code>} <State of={row.state} />
        </span>
        {row.settledAt && <Moment at={row.settledAt} />}
      </div>
      <p class="hint">
        {row.kind === 'effect' ? 'Effect' : 'Handler'}, {plural(row.attempt, 'attempt')}
        {row.lost > 0 && `, ${row.lost} never ended`}
        {row.settledAt &&
          `, ${duration(Date.parse(row.settledAt) - Date.parse(row.createdAt))} after it was owed`}
        {row.state === 'pending' &&
          (row.leasedBy ? (
            ', running'
          ) : (
            <>
              , next try <When at={row.dueAt} />
            </>
          ))}
        {row.reason && `, ${row.reason.replaceAll('-', ' ')}`}
      </p>
      {row.error && (
        <pre
          class={row.state === 'done' ? 'error old' : 'error'}
          tabIndex={0}
          role="region"
          aria-label={`Error of ${row.name}`}
        >
          <Foreign text={row.error} />
        </pre>
      )}
      {row.error && row.place && <PlaceOf place={row.place} />}
      {row.result && (
        <p class="result">
          <Foreign text={row.result} lines={3} />
        </p>
      )}
      {row.kind === 'effect' && row.payloadBytes !== null && <Payload row={row} />}
      {effects.length > 0 && (
        <ol class="timeline">
          {effects.map((effect) => (
            <RowEntry key={effect.id} row={effect} all={all} />
          ))}
        </ol>
      )}
    </li>
  );
}

/** The frozen bytes that each attempt of an effect sends. */
function Payload({ row }: { row: EventRow }) {
  const canReveal = useCan('reveal');
  const [content, setContent] = useState<Content | undefined>();
  const [error, setError] = useState<unknown>();
  const reveal = () => void api.reveal({ effect: row.id }).then(setContent, setError);
  if (error !== undefined) return <Fault error={error as never} />;
  if (content !== undefined) return <ContentView content={content} label={`Payload of ${row.name}`} />;
  return (
    <p class="hint">
      Payload, {bytes(row.payloadBytes ?? 0)}{' '}
      {canReveal && (
        <button type="button" class="quiet" onClick={reveal}>
          Show the payload
        </button>
      )}
    </p>
  );
}

function Body({ event }: { event: EventDetail }) {
  const { payloads } = useMeta();
  const canReveal = useCan('reveal');
  const [content, setContent] = useState<Content | undefined>();
  const [error, setError] = useState<unknown>();
  const shown = event.body ?? content;
  const command = shown?.encoding === 'utf8' && !shown.cut ? curlOf(event, shown.text) : undefined;
  const quietly = (work: () => Promise<void>) => {
    work().then(() => setError(undefined), setError);
  };
  const reveal = () => quietly(async () => setContent(await api.reveal({ event: event.id })));
  const download = () =>
    quietly(async () => {
      const url = URL.createObjectURL(await api.download({ event: event.id }));
      Object.assign(document.createElement('a'), { href: url, download: `${event.id}.txt` }).click();
      URL.revokeObjectURL(url);
    });
  return (
    <Panel
      title="Body"
      aside={
        canReveal &&
        event.bytes !== null && (
          <span class="page-actions">
            {command !== undefined && <Copy text={command} label="Copy as curl" />}
            <button type="button" class="quiet" onClick={download}>
              Download
            </button>
          </span>
        )
      }
    >
      {error !== undefined && <Fault error={error as never} />}
      {event.bytes === null ? (
        <Empty title="The body was removed" />
      ) : shown === undefined ? (
        <Empty title={`${bytes(event.bytes)} hidden`}>
          {payloads === 'hidden' && 'This application shows no content.'}
          {canReveal && (
            <button type="button" onClick={reveal}>
              Show the body
            </button>
          )}
          {canReveal && <span class="faint"> the audit records it</span>}
        </Empty>
      ) : (
        <ContentView content={shown} label="Body of the event" />
      )}
      {event.sha256 && (
        <p class="hint">
          SHA-256 <code class="break">{event.sha256}</code>, {count(event.bytes ?? 0)} bytes as they came
        </p>
      )}
    </Panel>
  );
}

export function eventLink(claimId: string | null, text: string | null) {
  return claimId === null ? (
    <Foreign text={text} />
  ) : (
    <a href={href(`event/${claimId}`)}>
      <Foreign text={text} />
    </a>
  );
}
