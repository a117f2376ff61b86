/** `2026-08-01`, `2026-08-01T09:00`, with seconds and their fractions if need be, and an offset or none. */
const TIME = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(\.\d{1,9})?)?(Z|[+-]\d\d:?\d\d)?)?$/i;

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
  const [, day, minute = '00:00', second = '00', fraction = '', offset] = TIME.exec(text) ?? [];
  const shown = `${day}T${minute}:${second}`;
  const wall = Date.parse(`${shown}${fraction}Z`);
  // 30 February is taken for a day of March.
  if (Number.isNaN(wall) || !new Date(wall).toISOString().startsWith(shown)) return NaN;
  if (offset !== undefined) return wall - offsetOf(offset);
  // Before and after a change of clocks: the earlier of the instants that show this time, if one does.
  const before = wall - offsetAt(zone, wall - DAY_MS);
  const after = wall - offsetAt(zone, wall + DAY_MS);
  const shows = (at: number) => at + offsetAt(zone, at) === wall;
  return [Math.min(before, after), Math.max(before, after)].find(shows) ?? before;
}

/** Milliseconds of `Z`, `+02:00` or `+0200`; NaN from 24 hours or 60 minutes on. */
function offsetOf(offset: string): number {
  const hours = Number(offset.slice(1, 3));
  const minutes = Number(offset.slice(-2));
  if (offset.length === 1) return 0;
  if (hours > 23 || minutes > 59) return NaN;
  return (offset.startsWith('-') ? -1 : 1) * (hours * 60 + minutes) * 60_000;
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
