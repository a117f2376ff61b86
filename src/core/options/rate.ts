/** So many calls a second, and so many at once. */
export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

const SECONDS = { s: 1, min: 60, h: 3_600 };
/** A tenth of a second's calls may be made at once: fewer would need a round of the relay for each. */
const BURST_SECONDS = 0.1;

/** Undefined for text that is no rate. */
export function rateOf(text: string): Rate | undefined {
  const [, count, unit] = /^(\d{1,6}(?:\.\d{1,3})?)\/(s|min|h)$/.exec(text) ?? [];
  const perSecond = Number(count) / SECONDS[unit as keyof typeof SECONDS];
  return perSecond > 0 ? { perSecond, burst: Math.max(1, perSecond * BURST_SECONDS) } : undefined;
}
