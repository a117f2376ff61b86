/** `2026-08-01`, `2026-08-01T09:00`, with seconds and their fractions if need be, and without an offset. */
const LOCAL = /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(\.\d{1,3})?)?)?$/;

export function isZone(name: string): boolean {
  try {
    return Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone !== '';
  } catch {
    return false;
  }
}

/**
 * Milliseconds since 1970 of a date or time. Without an offset it is of the zone `zone`. A time that a change of clocks skips is
 * taken as one hour later; of one that comes twice the first is taken.
 * @returns NaN for what is no time
 */
export function instantOf(text: string, zone: string): number {
  const parts = LOCAL.exec(text);
  if (parts === null)
    return /^\d{4}-\d\d-\d\d[T ].*(?:Z|[+-]\d\d:?\d\d)$/i.test(text) ? Date.parse(text) : NaN;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part ?? 0)) as [
    number,
    number,
    number,
    number,
    number,
    number,
  ];
  const wall = Date.UTC(
    year,
    month - 1,
    day,
    hour,
    minute,
    second,
    Math.round(Number(parts[7] ?? 0) * 1_000),
  );
  if (new Date(wall).getUTCDate() !== day || hour > 23 || minute > 59 || second > 59) return NaN;
  // Before and after a change of clocks: the earlier of the instants that show this time, if one does.
  const before = wall - offsetAt(zone, wall - DAY_MS);
  const after = wall - offsetAt(zone, wall + DAY_MS);
  const shows = (at: number) => at + offsetAt(zone, at) === wall;
  return [Math.min(before, after), Math.max(before, after)].find(shows) ?? before;
}

const DAY_MS = 86_400_000;

/** Milliseconds by which a zone's clocks are ahead of UTC. */
function offsetAt(zone: string, at: number): number {
  const parts = new Intl.DateTimeFormat('en', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: 'numeric',
    day: 'numeric',
    hour: 'numeric',
    minute: 'numeric',
    second: 'numeric',
  }).formatToParts(at);
  const part = (type: string) => Number(parts.find((one) => one.type === type)?.value);
  const shown = Date.UTC(
    part('year'),
    part('month') - 1,
    part('day'),
    part('hour'),
    part('minute'),
    part('second'),
  );
  return shown - Math.floor(at / 1_000) * 1_000;
}
