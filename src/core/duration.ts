import ms from 'ms';

/** Milliseconds, or text such as '250ms', '30s', '5m', '4h', '30d'. */
export type Duration = number | string;

/** Milliseconds of a duration, or undefined when it is none (unknown unit, NaN, negative, infinite). */
export function toMs(duration: Duration): number | undefined {
  const value = typeof duration === 'number' ? duration : ms(duration as ms.StringValue);
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

/** Largest delay of a Node timer; a longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;
