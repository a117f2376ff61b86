import { offsetMinutes, zoneName } from './zone.ts';

/** How figures, times and sizes are written: short, and the same everywhere. */

const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const;

/** `4m 12s`, `820 ms`: the two largest units. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  const at = UNITS.findIndex(([, size]) => ms >= size);
  const [unit, size] = UNITS[at]!;
  const first = Math.floor(ms / size);
  const [nextUnit, nextSize] = UNITS[at + 1] ?? [];
  const rest = nextSize === undefined ? 0 : Math.floor((ms - first * size) / nextSize);
  return rest > 0 && first < 10 ? `${first}${unit} ${rest}${nextUnit}` : `${first}${unit}`;
}

/** `3 m ago`, `in 40 s`. */
export function ago(iso: string, now = Date.now()): string {
  const ms = now - Date.parse(iso);
  if (Math.abs(ms) < 1_000) return 'now';
  return ms > 0 ? `${duration(ms)} ago` : `in ${duration(-ms)}`;
}

/** ISO 8601 in the zone shown, with its offset: `2026-11-29T22:42:06.123+01:00`. */
export function time(iso: string): string {
  const at = new Date(iso);
  const offset = offsetMinutes(at);
  return `${shifted(at, offset).slice(0, 23)}${offsetText(offset)}`;
}

/** `22:42` in the zone shown. */
export function clock(ms: number): string {
  const at = new Date(ms);
  return shifted(at, offsetMinutes(at)).slice(11, 16);
}

/** `UTC`, `Europe/Berlin, UTC+01:00`. */
export function zoneText(): string {
  const name = zoneName();
  return name === 'UTC'
    ? name
    : `${name}, UTC${offsetText(offsetMinutes(new Date())).replace('Z', '+00:00')}`;
}

function shifted(at: Date, minutes: number): string {
  return new Date(at.getTime() + minutes * 60_000).toISOString();
}

function offsetText(minutes: number): string {
  if (zoneName() === 'UTC') return 'Z';
  const two = (n: number) => String(Math.floor(n)).padStart(2, '0');
  return `${minutes < 0 ? '-' : '+'}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

const COUNT = new Intl.NumberFormat('en');

export function count(value: number): string {
  return COUNT.format(value);
}

/** Counts stop at 10,000. */
export function capped(value: number): string {
  return value >= 10_000 ? '10,000+' : count(value);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

export function bytes(n: number): string {
  if (n < 1_024) return `${n} B`;
  return n < 1_048_576 ? `${(n / 1_024).toFixed(1)} kB` : `${(n / 1_048_576).toFixed(1)} MB`;
}

export function millis(ms: number | null): string {
  if (ms === null) return '–';
  return ms < 10 ? `${ms.toFixed(1)} ms` : duration(ms);
}
