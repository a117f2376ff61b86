import { api, type NotRevived } from '../api.ts';
import { count, plural } from '../format.ts';
import { useQuery } from '../use-query.ts';
import { ActDialog, inParts, revivedText, useProgress } from './act-dialog.tsx';
import { Fault } from './ui.tsx';

const PART = 100;

interface Revivable {
  readonly id: string;
  readonly name: string;
}

/** Gives dead rows new attempts; says beforehand what runs and what stays done, and afterwards what became of them. */
export function ReviveDialog(props: {
  rows: readonly Revivable[];
  /** The error that they died of. */
  fingerprint?: string;
  onClose: () => void;
}) {
  const { rows, onClose } = props;
  const progress = useProgress();
  const ids = rows.map(({ id }) => id);
  const others: NotRevived[] = [];
  return (
    <ActDialog
      title={`Revive ${plural(rows.length, 'row')}`}
      verb="Revive"
      total={rows.length}
      onClose={onClose}
      follow={ids}
      fingerprint={props.fingerprint}
      steps={async function* (reason) {
        const revived = yield* inParts(
          ids,
          PART,
          async (part) => {
            const report = await api.revive(part, reason);
            others.push(...(report.others ?? []));
            return report.revived.length;
          },
          progress,
        );
        return revivedText(revived, others);
      }}
    >
      <p>Each gets new attempts, from now. Effects that are done are not done again.</p>
      <Preview ids={ids.slice(0, 500)} />
    </ActDialog>
  );
}

function Preview({ ids }: { ids: string[] }) {
  const preview = useQuery(`revive ${ids.join()}`, () => api.previewRevive(ids), undefined, true);
  if (preview.error) return <Fault error={preview.error} />;
  if (preview.data === undefined) return <p role="status">Finding the rows that would run…</p>;
  const { run, staysDone, notDead } = preview.data;
  return (
    <div class="preview" tabIndex={0} role="region" aria-label="What would run">
      <dl class="facts">
        <Names title="Runs" of={run} />
        <Names title="Stays done" of={staysDone} />
        {notDead > 0 && <Names title="Not dead now" of={{ rows: notDead }} />}
      </dl>
    </div>
  );
}

function Names({ title, of }: { title: string; of: Record<string, number> }) {
  const names = Object.entries(of);
  if (names.length === 0) return null;
  return (
    <div>
      <dt>{title}</dt>
      <dd>{names.map(([name, n]) => (n > 1 ? `${name} × ${count(n)}` : name)).join(', ')}</dd>
    </div>
  );
}

/** Calls effects back that have not begun. */
export function CancelDialog(props: {
  effects: readonly { readonly id: string; readonly name: string }[];
  onClose: () => void;
}) {
  const { effects, onClose } = props;
  return (
    <ActDialog
      title={
        effects.length === 1 ? `Cancel ${effects[0]!.name}` : `Cancel ${plural(effects.length, 'effect')}`
      }
      verb="Cancel for good"
      danger
      total={effects.length}
      onClose={onClose}
      steps={async function* (reason) {
        let cancelledNow = 0;
        const others = new Set<string>();
        for (const [at, { id }] of effects.entries()) {
          const { cancelled, why } = await api.cancel(id, reason);
          if (cancelled) cancelledNow += 1;
          else others.add(why ?? 'it is dead');
          yield { done: at + 1 };
        }
        const rest =
          others.size > 0 ? ` ${effects.length - cancelledNow} not: ${[...others].join('; ')}.` : '';
        return `${cancelledNow} cancelled.${rest}`;
      }}
    >
      <p>
        {effects.length === 1 ? 'It is' : 'They are'} not called any more. Earlier attempts are not undone,
        and an effect that has begun goes on. The key stays taken: the application needs another key to
        enqueue the effect again.
      </p>
    </ActDialog>
  );
}

/** Lets dead rows be, for good. */
export function GiveUpDialog({ ids, onClose }: { ids: readonly string[]; onClose: () => void }) {
  const progress = useProgress();
  return (
    <ActDialog
      title={`Give up ${plural(ids.length, 'row')}`}
      verb="Give up"
      danger
      total={ids.length}
      onClose={onClose}
      steps={async function* (reason) {
        const act = async (part: string[]) => (await api.giveUp(part, reason)).givenUp.length;
        return `${plural(yield* inParts(ids, PART, act, progress), 'row')} given up.`;
      }}
    >
      <p>
        They stay dead, with their error: no redelivery starts them again, and rows behind them in the order
        of a key go on. You can still revive or replay them.
      </p>
    </ActDialog>
  );
}
