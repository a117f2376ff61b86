import ms from 'ms';

/** Milliseconds, or text such as '250ms', '30s', '5m', '4h', '30d'. */
export type Duration = number | string;

/** Milliseconds of a duration, or undefined for another text or number (unknown unit, NaN, negative, infinite). */
export function toMs(duration: Duration): number | undefined {
  const value = typeof duration === 'number' ? duration : textMs(duration);
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : undefined;
}

/** ms() throws for text that is empty or very long. */
function textMs(text: string): number | undefined {
  return text !== '' && text.length <= 100 ? ms(text as ms.StringValue) : undefined;
}

/** Largest delay of a Node timer; a longer one fires at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;
