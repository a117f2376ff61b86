import { api } from '../api.ts';
import { count, plural } from '../format.ts';
import type { RowStates } from '../types.ts';
import { useQuery } from '../use-query.ts';
import { Foreign } from './ui.tsx';

/** Rows that one question may be about. */
const MAX = 500;

/** What becomes of rows that an action has begun: asked again until all have ended. */
export function Outcome({ ids, fingerprint }: { ids: readonly string[]; fingerprint?: string | undefined }) {
  const shown = ids.slice(0, MAX);
  const query = useQuery(`outcome ${shown.join()}`, () => api.states(shown), 1_000, true);
  if (query.data === undefined) return null;
  return (
    <div class="preview" role="region" aria-label="Outcome">
      <p role="status">{outcomeText(query.data, fingerprint)}</p>
      {query.data.error && (
        <p class="hint">
          <Foreign text={query.data.error} lines={3} />
        </p>
      )}
    </div>
  );
}

/** `28 rows: 16 done, 12 died again: same error`. */
export function outcomeText({ states, total, fingerprints }: RowStates, before?: string): string {
  const parts = Object.entries(states).map(([state, n]) => `${count(n)} ${WORDS[state] ?? state}`);
  const same = fingerprints.every((one) => one === before);
  const died = !states['dead'] || before === undefined ? '' : same ? ': same error' : ': another error';
  return `${plural(total, 'row')}: ${parts.join(', ')}${died}`;
}

const WORDS: Record<string, string> = { pending: 'under way', dead: 'died again' };
