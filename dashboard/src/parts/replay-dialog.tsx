import { useRef, useState } from 'preact/hooks';
import { api, collectEvents, type EventKey } from '../api.ts';
import { useMeta } from '../app-context.ts';
import { count, plural } from '../format.ts';
import type { NewEffects, ReplayPlan } from '../types.ts';
import { reloadAll, useQuery } from '../use-query.ts';
import { ActDialog, inParts, useProgress } from './act-dialog.tsx';
import { Dialog, Fault, Foreign } from './ui.tsx';

const PART = 50;
const SHOWN = 20;

/** Says what a replay would run and what stays done, before it is asked for. For one event, or for those that a filter finds. */
export function ReplayDialog(props: {
  events?: EventKey[];
  filter?: string;
  onClose: (acted: boolean) => void;
}) {
  const { maxAtOnce } = useMeta();
  const [refire, setRefire] = useState<string[]>([]);
  const [newEffects, setNewEffects] = useState<NewEffects>('refuse');
  const found = useQuery(
    `to replay ${keyOf(props)}`,
    () => (props.events ? Promise.resolve(props.events) : collectEvents(props.filter ?? '', maxAtOnce)),
    undefined,
    true,
  );
  const events = found.data;
  const preview = useQuery(
    `plans ${keyOf(props)} ${events?.length ?? 0} ${newEffects} ${refire.join()}`,
    async () => (events === undefined ? [] : plansOf(events, refire, newEffects)),
    undefined,
    true,
  );
  const progress = useProgress();
  const error = found.error ?? preview.error;
  // While another preview is on its way the former stays: the dialog keeps what was typed.
  const last = useRef<ReplayPlan[] | undefined>(undefined);
  if (events !== undefined && preview.data !== undefined) last.current = preview.data;
  const plans = last.current;
  if (events === undefined || plans === undefined) {
    return (
      <Dialog title="Replay" onClose={() => props.onClose(false)}>
        <div class="dialog-body">
          {error ? <Fault error={error} /> : <p role="status">Finding the rows that would run…</p>}
        </div>
      </Dialog>
    );
  }
  return (
    <ActDialog
      title={`Replay ${plural(events.length, 'event')}`}
      verb="Replay"
      total={events.length}
      onClose={(acted) => (acted && reloadAll(), props.onClose(acted))}
      follow={plans.flatMap((plan) => plan.run.flatMap(({ rowId }) => rowId ?? [])).slice(0, 500)}
      steps={async function* (reason) {
        let refused = 0;
        const replayed = yield* inParts(
          events,
          PART,
          async (part) => {
            const report = await api.replay(part, refire, newEffects, reason, progress.id);
            refused += report.refused.length;
            return report.replayed + report.skipped;
          },
          progress,
        );
        return `${plural(replayed, 'event')} replayed${refused > 0 ? `, ${count(refused)} refused` : ''}.`;
      }}
    >
      <p>Handlers run again, also those added since. Effects that are done stay done.</p>
      {error && <Fault error={error} />}
      <Plans plans={plans} />
      <AllowNew plans={plans} allowed={newEffects === 'allow'} onChange={setNewEffects} />
      <Refire plans={plans} chosen={refire} onChange={setRefire} />
      {events.length >= maxAtOnce && <p>At most {count(maxAtOnce)} at once: the newest are taken.</p>}
    </ActDialog>
  );
}

/** Distinguishes selections in the cache of questions. */
function keyOf({ events, filter }: { events?: EventKey[]; filter?: string }): string {
  return events === undefined ? `filter ${filter ?? ''}` : JSON.stringify(events);
}

function Plans({ plans }: { plans: ReplayPlan[] }) {
  const runnable = plans.filter((plan) => plan.refused === undefined);
  const refused = plans.filter((plan) => plan.refused !== undefined);
  return (
    <div class="preview" tabIndex={0} role="region" aria-label="What would run">
      <dl class="facts">
        <Counted title="Runs" names={runnable.flatMap((plan) => plan.run.map((one) => one.handler))} />
        <Counted
          title="Stays done"
          names={runnable.flatMap((plan) => plan.staysDone.map((one) => one.name))}
        />
        <Counted
          title="Happens once more"
          names={runnable.flatMap((plan) => plan.refired.map((one) => one.name))}
        />
        <Counted title="Refused the last time" names={refusedOf(runnable)} />
      </dl>
      {refused.length > 0 && (
        <>
          <p>{plural(refused.length, 'event')} cannot be replayed:</p>
          <ul class="rows">
            {refused.slice(0, SHOWN).map((plan) => (
              <li key={`${plan.event.source} ${plan.event.tenant} ${plan.event.eventId}`}>
                <code>
                  <Foreign text={plan.event.eventId} />
                </code>{' '}
                <Foreign text={plan.refused ?? ''} />
              </li>
            ))}
          </ul>
          {refused.length > SHOWN && <p class="hint">and {count(refused.length - SHOWN)} more</p>}
        </>
      )}
    </div>
  );
}

function Counted({ title, names }: { title: string; names: string[] }) {
  if (names.length === 0) return null;
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return (
    <div>
      <dt>{title}</dt>
      <dd>{[...counts].map(([name, n]) => (n > 1 ? `${name} × ${count(n)}` : name)).join(', ')}</dd>
    </div>
  );
}

/** Effects that the handlers' code of today would enqueue for the first time: one that was renamed looks like these. */
function AllowNew(props: {
  plans: ReplayPlan[];
  allowed: boolean;
  onChange: (newEffects: NewEffects) => void;
}) {
  const again = props.plans.flatMap((plan) => plan.run).filter((one) => one.newEffects !== undefined);
  if (again.length === 0) return null;
  return (
    <fieldset>
      <legend>
        {plural(again.length, 'run')} of a handler that was done: effects that it enqueues for the first time
      </legend>
      <label class="choice">
        <input
          type="checkbox"
          checked={props.allowed}
          onChange={(event) => props.onChange(event.currentTarget.checked ? 'allow' : 'refuse')}
        />
        Allow new effects. Otherwise such a run is undone, and this dialog then lists them.
      </label>
    </fieldset>
  );
}

function refusedOf(plans: ReplayPlan[]): string[] {
  return plans.flatMap((plan) => plan.run.flatMap((one) => (one.refused ?? []).map(({ name }) => name)));
}

/** Effects that are done, to be chosen one by one: what was sent is sent again, under a new key. */
function Refire(props: { plans: ReplayPlan[]; chosen: string[]; onChange: (names: string[]) => void }) {
  const names = new Set(
    props.plans.flatMap((plan) => [...plan.staysDone, ...plan.refired].map((one) => one.name)),
  );
  for (const name of props.chosen) names.add(name);
  if (names.size === 0) return null;
  return (
    <fieldset>
      <legend>Do once more although done, under a new key</legend>
      {[...names].sort().map((name) => (
        <label key={name} class="choice">
          <input
            type="checkbox"
            checked={props.chosen.includes(name)}
            onChange={(event) =>
              props.onChange(
                event.currentTarget.checked
                  ? [...props.chosen, name]
                  : props.chosen.filter((one) => one !== name),
              )
            }
          />
          {name}
        </label>
      ))}
    </fieldset>
  );
}

async function plansOf(events: EventKey[], refire: string[], newEffects: NewEffects): Promise<ReplayPlan[]> {
  const plans: ReplayPlan[] = [];
  for (let at = 0; at < events.length; at += PART) {
    plans.push(...(await api.previewReplay(events.slice(at, at + PART), refire, newEffects)).plans);
  }
  return plans;
}
