// Seconds of the year 5138 and milliseconds of 1973 meet here: no vendor means either.
const MILLISECONDS_FROM = 1e11;
const LATEST = Date.UTC(9999, 11, 31);

/** When an event happened, from ISO 8601 text or from a number of seconds or milliseconds; undefined when it says nothing usable. */
export function eventTime(value: unknown): Date | undefined {
  const at = timeOf(value);
  return at !== undefined && at >= 0 && at <= LATEST ? new Date(at) : undefined;
}

function timeOf(value: unknown): number | undefined {
  if (typeof value === 'number') return value < MILLISECONDS_FROM ? value * 1000 : value;
  if (typeof value !== 'string' || value.length > 40) return undefined;
  if (/^\d{1,16}$/.test(value)) return timeOf(Number(value));
  const at = /^\d{4}-\d\d-\d\d/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(at) ? undefined : at;
}
