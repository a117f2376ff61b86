import { ConfigurationError } from '../core/errors.js';

/**
 * A mistyped option would be ignored, and its default used without a word.
 * @throws ConfigurationError naming the nearest known option
 */
export function refuseUnknownOptions(provider: string, options: object, known: readonly string[]): void {
  for (const name of Object.keys(options)) {
    if (known.includes(name)) continue;
    throw new ConfigurationError(
      `${provider}.${name}: unknown option. Did you mean '${nearest(name, known)}'? It has: ${[...known].sort().join(', ')}.`,
    );
  }
}

function nearest(name: string, known: readonly string[]): string {
  const distances = known.map((one) => ({
    one,
    distance: distanceOf(name.toLowerCase(), one.toLowerCase()),
  }));
  return distances.reduce((best, next) => (next.distance < best.distance ? next : best)).one;
}

/** Levenshtein: how many letters differ. */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++)
      next.push(Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)));
    row = next;
  }
  return row[b.length]!;
}
