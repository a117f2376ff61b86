import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { NotRevived } from '../api.ts';
import { plural } from '../format.ts';
import { Dialog } from './ui.tsx';

/** One step of an action; larger selections take several. Returns how many it covered, and what to say of it. */
export type Steps = (reason: string) => AsyncGenerator<{ done: number; said?: string }, string>;

/** Confirms an action, asks why, shows its progress, and says what came of it. */
export function ActDialog(props: {
  title: string;
  verb: string;
  danger?: boolean;
  total: number;
  /** A word that must be typed first: for what cannot be undone. */
  typed?: string;
  steps: Steps;
  onClose: (acted: boolean) => void;
  children: ComponentChildren;
}) {
  const [reason, setReason] = useState('');
  const [typed, setTyped] = useState('');
  const [phase, setPhase] = useState<'ask' | 'run' | 'done'>('ask');
  const [done, setDone] = useState(0);
  const [said, setSaid] = useState('');
  const stop = useRef(false);
  const form = useRef<HTMLFormElement>(null);
  // What it is about when it opens: the page behind goes on, and what is acted on is there no longer afterwards.
  const [{ title, total }] = useState({ title: props.title, total: props.total });
  // The button that was pressed has gone, and the focus with it. The next button has the focus before the outcome is painted, so that Enter reaches it.
  useLayoutEffect(() => {
    if (phase !== 'ask') form.current?.querySelector<HTMLElement>('.dialog-actions button')?.focus();
  }, [phase]);

  const run = async () => {
    setPhase('run');
    try {
      const steps = props.steps(reason);
      for (;;) {
        const step = await steps.next();
        if (step.done) {
          setSaid(step.value);
          break;
        }
        setDone(step.value.done);
        if (stop.current) {
          setSaid(`Stopped after ${step.value.done} of ${total}.`);
          break;
        }
      }
    } catch (error) {
      setSaid(error instanceof Error ? error.message : String(error));
    }
    setPhase('done');
  };

  return (
    <Dialog title={title} onClose={() => props.onClose(phase !== 'ask')}>
      <form
        ref={form}
        class="dialog-body"
        onSubmit={(event) => {
          event.preventDefault();
          void run();
        }}
      >
        {phase === 'ask' && (
          <>
            <div class="prose">{props.children}</div>
            <label>
              Why? <span class="faint">stands in the audit</span>
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
              <button type="button" onClick={() => props.onClose(false)}>
                Cancel
              </button>
              <button
                type="submit"
                class={props.danger ? 'danger' : 'primary'}
                disabled={reason.trim() === '' || (props.typed !== undefined && typed !== props.typed)}
              >
                {props.verb}
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
            <div class="dialog-actions">
              <button type="button" onClick={() => (stop.current = true)}>
                Stop
              </button>
            </div>
          </>
        )}
        {phase === 'done' && (
          <>
            <p role="status" class="prose">
              {said}
            </p>
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

/** Runs `act` on a list in parts. */
export async function* inParts<T>(
  items: readonly T[],
  size: number,
  act: (part: T[]) => Promise<number>,
): AsyncGenerator<{ done: number }, number> {
  let effective = 0;
  for (let at = 0; at < items.length; at += size) {
    effective += await act(items.slice(at, at + size));
    yield { done: Math.min(at + size, items.length) };
  }
  return effective;
}

/** The result of a revival. The first row that could not be revived gives the reason. */
export function revivedText(revived: number, others: readonly NotRevived[]): string {
  const done = `${plural(revived, 'row')} revived${revived > 0 ? ': they are run again now' : ''}.`;
  const [first] = others;
  return first === undefined ? done : `${done} ${plural(others.length, 'other')}: ${first.why}.`;
}
