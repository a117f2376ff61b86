import { closest, distance } from 'fastest-levenshtein';

/** Further apart than this, two names are two things, and a guess would lead astray. */
const MAX_EDITS = 3;
const MAX_SHARE = 0.6;
/** Names of a list that is shown instead. */
const MAX_LISTED = 40;

/**
 * A suggestion for an unknown name: the nearest known name if it is near, else all known names. It is '' when there are none. It begins
 * with '; ', to be put behind a sentence.
 */
export function didYouMean(name: string, known: readonly string[]): string {
  if (known.length === 0) return '';
  const lower = new Map(known.map((one) => [one.toLowerCase(), one]));
  const near = closest(name.toLowerCase(), [...lower.keys()]);
  const edits = distance(name.toLowerCase(), near);
  if (edits <= MAX_EDITS && edits < MAX_SHARE * Math.max(name.length, near.length))
    return `; did you mean '${lower.get(near)!}'?`;
  const listed = [...known].sort().slice(0, MAX_LISTED);
  return `; known: ${listed.join(', ')}${known.length > listed.length ? ', …' : ''}`;
}

/** Both `v1.invoice.paid` and `invoice.paid` are types of Stripe: three edits are too many for a slip. */
const MAX_SLIPS = 2;
const MAX_SLIP_SHARE = 1 / 3;

/** The known name that differs from this one by its case or a slip of the keyboard; undefined for a known name, and where none is near. */
export function nearMiss(name: string, known: readonly string[]): string | undefined {
  if (known.length === 0 || known.includes(name)) return undefined;
  const lower = name.toLowerCase();
  const spelled = known.map((one) => one.toLowerCase());
  const near = closest(lower, spelled);
  const most = Math.min(MAX_SLIPS, Math.floor(MAX_SLIP_SHARE * lower.length));
  return distance(lower, near) <= most ? known[spelled.indexOf(near)] : undefined;
}
