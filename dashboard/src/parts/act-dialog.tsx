import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { ApiError, newId, type NotRevived } from '../api.ts';
import { plural } from '../format.ts';
import { Outcome } from './outcome.tsx';
import { Dialog, SignIn } from './ui.tsx';

/** One step of an action; larger selections take several. Returns how many it covered, and what to say of it. */
export type Steps = (reason: string) => AsyncGenerator<{ done: number; said?: string }, string>;

type Phase = 'ask' | 'run' | 'failed' | 'done';

/**
 * Asks a person to confirm an action and to give a reason. It shows the progress and the outcome. After a failure the typed reason
 * stays, and the person can try again.
 */
export function ActDialog(props: {
  title: string;
  verb: string;
  danger?: boolean;
  total: number;
  /** A word that must be typed first: for what cannot be undone. */
  typed?: string;
  steps: Steps;
  /** Outbox rows whose further way is shown afterwards. */
  follow?: readonly string[] | undefined;
  /** The error that they died of before. */
  fingerprint?: string | undefined;
  onClose: (acted: boolean) => void;
  children: ComponentChildren;
}) {
  const [reason, setReason] = useState('');
  const [typed, setTyped] = useState('');
  const [phase, setPhase] = useState<Phase>('ask');
  const [done, setDone] = useState(0);
  const [said, setSaid] = useState('');
  const [fault, setFault] = useState<unknown>();
  const [leaving, setLeaving] = useState(false);
  const stop = useRef(false);
  const form = useRef<HTMLFormElement>(null);
  // What it is about when it opens: the page behind goes on, and what is acted on is there no longer afterwards.
  const [{ title, total, follow }] = useState({
    title: props.title,
    total: props.total,
    follow: props.follow,
  });
  // The button that was pressed has gone, and the focus with it. The next button has the focus before the outcome is painted, so that Enter reaches it.
  useLayoutEffect(() => {
    if (phase !== 'ask') form.current?.querySelector<HTMLElement>('.dialog-actions button')?.focus();
  }, [phase, leaving]);

  const run = async () => {
    setPhase('run');
    let covered = 0;
    try {
      const steps = props.steps(reason);
      for (;;) {
        const step = await steps.next();
        if (step.done) {
          setSaid(step.value);
          break;
        }
        covered = step.value.done;
        setDone(covered);
        if (stop.current) {
          setSaid(`Stopped after ${covered} of ${total}.`);
          break;
        }
      }
      setPhase('done');
    } catch (error) {
      setFault(error);
      setSaid(failedText(error, covered, total));
      setPhase('failed');
    }
  };
  const acted = phase === 'done' || done > 0;

  return (
    <Dialog
      title={title}
      onClose={() => props.onClose(acted)}
      mayCancel={() => {
        if (phase !== 'run') return true;
        setLeaving(true);
        return false;
      }}
    >
      <form
        ref={form}
        class="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {(phase === 'ask' || phase === 'failed') && (
          <>
            {phase === 'failed' && (
              <p role="alert" class="prose bad">
                {said}
                {fault instanceof ApiError && fault.kind === 'signed-out' && <SignIn />}
              </p>
            )}
            <div class="prose">{props.children}</div>
            <label>
              Why? <span class="faint">for the audit</span>
              <input
                value={reason}
                maxLength={500}
                required
                onInput={(event) => setReason(event.currentTarget.value)}
                autofocus
              />
            </label>
            {props.typed && (
              <label>
                Type <code>{props.typed}</code> to go on
                <input
                  value={typed}
                  onInput={(event) => setTyped(event.currentTarget.value)}
                  autocomplete="off"
                />
              </label>
            )}
            <div class="dialog-actions">
              <button type="button" onClick={() => props.onClose(acted)}>
                {phase === 'failed' ? 'Close' : 'Cancel'}
              </button>
              <button
                type="submit"
                class={props.danger ? 'danger' : 'primary'}
                disabled={reason.trim() === '' || (props.typed !== undefined && typed !== props.typed)}
              >
                {phase === 'failed' ? 'Go on' : props.verb}
              </button>
            </div>
          </>
        )}
        {phase === 'run' && (
          <>
            <progress value={done} max={Math.max(total, 1)} aria-label="Progress" />
            <p role="status">
              {done} of {total}
            </p>
            {leaving && <p role="alert">It is running. Stop after the current part?</p>}
            <div class="dialog-actions">
              <button type="button" onClick={() => ((stop.current = true), setLeaving(false))}>
                Stop
              </button>
              {leaving && (
                <button type="button" onClick={() => setLeaving(false)}>
                  Let it run
                </button>
              )}
            </div>
          </>
        )}
        {phase === 'done' && (
          <>
            <p role="status" class="prose">
              {said}
            </p>
            {follow && follow.length > 0 && <Outcome ids={follow} fingerprint={props.fingerprint} />}
            <div class="dialog-actions">
              <button type="button" class="primary" onClick={() => props.onClose(true)}>
                Close
              </button>
            </div>
          </>
        )}
      </form>
    </Dialog>
  );
}

/** Shows the rows that were done before a failure, and the next step. */
function failedText(error: unknown, done: number, total: number): string {
  const text = error instanceof Error ? error.message : String(error);
  return done === 0
    ? text
    : `${done} of ${total} done, then: ${text} The finished part stays done; continue with the rest.`;
}

/**
 * Runs `act` on a list in parts. After a failure the next run goes on with the part that failed, so that nothing is done twice.
 * @param progress where it stands; kept by the dialog that runs it
 */
export async function* inParts<T>(
  items: readonly T[],
  size: number,
  act: (part: T[]) => Promise<number>,
  progress: Omit<Progress, 'id'> = { at: 0, effective: 0 },
): AsyncGenerator<{ done: number }, number> {
  while (progress.at < items.length) {
    progress.effective += await act(items.slice(progress.at, progress.at + size));
    progress.at = Math.min(progress.at + size, items.length);
    yield { done: progress.at };
  }
  return progress.effective;
}

/** How far an action in parts has come. */
export interface Progress {
  /** Of the act. Asked for again under it, nothing is done twice. */
  readonly id: string;
  at: number;
  effective: number;
}

export function useProgress(): Progress {
  return useRef<Progress>({ id: newId(), at: 0, effective: 0 }).current;
}

/** The result of a revival. The first row that could not be revived gives the reason. */
export function revivedText(revived: number, others: readonly NotRevived[]): string {
  const done = `${plural(revived, 'row')} revived${revived > 0 ? ': they are run again now' : ''}.`;
  const [first] = others;
  return first === undefined ? done : `${done} ${plural(others.length, 'other')}: ${first.why}.`;
}
