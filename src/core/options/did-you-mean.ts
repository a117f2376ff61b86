import { closest, distance } from 'fastest-levenshtein';

/** Further apart than this, two names are two things, and a guess would lead astray. */
const MAX_EDITS = 3;
const MAX_SHARE = 0.6;
/** Names of a list that is shown instead. */
const MAX_LISTED = 40;

/**
 * What may have been meant by a name that is unknown: the nearest one if it is near, else all there are; '' when there are none.
 * Begins with '; ', to be put behind a sentence.
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
