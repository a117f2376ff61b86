import { useState } from 'preact/hooks';
import { api } from '../api.ts';
import { plural } from '../format.ts';
import { ActDialog } from './act-dialog.tsx';

interface Decided {
  readonly id: string;
  readonly name: string;
  readonly reason: string | null;
}

const WHY: Record<string, string> = {
  'in-doubt':
    'It was begun, and its end is unknown: another attempt may do it twice. Check the other service, then choose:',
  'key-expired':
    'The other service may have forgotten the key: another attempt may do it twice. Check there, then choose:',
  'by-person': 'A person parked it before its next attempt. Choose how it continues:',
};

/** A person's word on parked rows. */
export function Decide({ rows, onClose }: { rows: readonly Decided[]; onClose: () => void }) {
  const [decision, setDecision] = useState<'retry' | 'done' | 'dead'>('done');
  const [first] = rows;
  return (
    <ActDialog
      title={rows.length === 1 ? `Decide about ${first?.name}` : `Decide about ${plural(rows.length, 'row')}`}
      verb="Decide"
      total={rows.length}
      onClose={onClose}
      steps={async function* (reason) {
        let decidedNow = 0;
        const others = new Set<string>();
        for (const [at, { id }] of rows.entries()) {
          const { decided, why } = await api.decide(id, decision, reason);
          if (decided) decidedNow += 1;
          else others.add(why ?? 'not parked any more');
          yield { done: at + 1 };
        }
        const rest = others.size > 0 ? ` ${rows.length - decidedNow} not: ${[...others].join('; ')}.` : '';
        return `${decidedNow === rows.length && rows.length === 1 ? 'Decided.' : `${decidedNow} decided.`}${rest}`;
      }}
      follow={rows.map(({ id }) => id)}
    >
      <p>{WHY[first?.reason ?? ''] ?? WHY['in-doubt']}</p>
      {(
        [
          ['done', 'It happened'],
          [
            'retry',
            first?.reason === 'by-person' ? 'Let it run' : 'It did not: do it again, under the same key',
          ],
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

/** Holds pending rows back, until a person decides about them. */
export function ParkDialog({
  rows,
  onClose,
}: {
  rows: readonly { readonly id: string; readonly name: string }[];
  onClose: () => void;
}) {
  return (
    <ActDialog
      title={rows.length === 1 ? `Park ${rows[0]!.name}` : `Park ${plural(rows.length, 'row')}`}
      verb="Park"
      total={rows.length}
      onClose={onClose}
      steps={async function* (reason) {
        const { parked } = await api.park(
          rows.map(({ id }) => id),
          reason,
        );
        yield { done: rows.length };
        const rest = rows.length - parked.length;
        return `${plural(parked.length, 'row')} parked.${rest > 0 ? ` ${rest} not: running, settled, or run by a redelivery only.` : ''}`;
      }}
    >
      <p>
        No instance runs {rows.length === 1 ? 'it' : 'them'} until a person decides. The event stays pending.
        A row that already runs is not parked.
      </p>
    </ActDialog>
  );
}
