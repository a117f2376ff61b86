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

const TIME = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: '2-digit',
  day: '2-digit',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  fractionalSecondDigits: 3,
  hourCycle: 'h23',
});
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' });

export function time(iso: string): string {
  return TIME.format(new Date(iso));
}

export function clock(ms: number): string {
  return CLOCK.format(new Date(ms));
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
