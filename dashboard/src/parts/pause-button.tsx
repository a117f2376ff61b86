import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { useCan } from '../app-context.ts';
import { reloadAll, useQuery } from '../use-query.ts';
import { ActDialog } from './act-dialog.tsx';
import { State } from './ui.tsx';

const WAITS = {
  source: 'Events are still received; their handlers wait. Enqueued effects go on.',
  handler: 'Events are still received; its runs wait.',
  effect: 'It is still enqueued; its calls wait.',
} as const;

/** Pauses or resumes a source, a handler or an effect, on all instances. */
export function PauseButton({ kind, name }: { kind: keyof typeof WAITS; name: string }) {
  const can = useCan('pause');
  const [asking, setAsking] = useState(false);
  const query = useQuery('paused', api.paused, 10_000);
  const pause = query.data?.paused.find((one) => one.kind === kind && one.name === name);
  const verb = pause ? 'Resume' : 'Pause';
  return (
    <span class="page-actions">
      {pause && (
        <span title={`${pause.pausedBy}: ${pause.reason}`}>
          <State of="paused" />
        </span>
      )}
      {can && query.data && (
        <button
          type="button"
          class="quiet"
          aria-label={`${verb} ${kind} ${name}`}
          onClick={() => setAsking(true)}
        >
          {verb}…
        </button>
      )}
      {asking && (
        <ActDialog
          title={`${verb} ${kind} ${name}`}
          verb={verb}
          total={1}
          onClose={() => (setAsking(false), reloadAll())}
          steps={async function* (reason) {
            await api.pause(kind, name, !pause, reason);
            yield { done: 1 };
            return pause ? 'Resumed.' : 'Paused.';
          }}
        >
          <p>{pause ? 'Waiting work runs now.' : WAITS[kind]}</p>
        </ActDialog>
      )}
    </span>
  );
}
