export type Cell = string | number | boolean | Date | null | undefined;

/** Longest cell: an error's text may fill a screen, and `show` and `--json` have it whole. */
const MAX_CELL = 72;
/** Ids, types and errors come from outside, and a terminal obeys control characters. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Text of outsiders as a terminal may have it. */
export function printable(text: string): string {
  return text.replace(CONTROL, '·');
}

/** A value as a table shows it: '-' for none, times in UTC. */
export function shown(cell: Cell): string {
  if (cell === null || cell === undefined || cell === '') return '-';
  if (cell instanceof Date) return `${cell.toISOString().slice(0, 19).replace('T', ' ')}Z`;
  const text = printable(String(cell));
  return text.length > MAX_CELL ? `${text.slice(0, MAX_CELL - 1)}…` : text;
}

/** Columns of equal width; numbers stand at the right. */
export function tableText(heads: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cells = rows.map((row) => heads.map((_, at) => shown(row[at])));
  const widths = heads.map((head, at) => Math.max(head.length, ...cells.map((row) => row[at]!.length)));
  const isNumber = heads.map((_, at) => rows.length > 0 && rows.every((row) => typeof row[at] === 'number'));
  const lineOf = (row: readonly string[]) =>
    row
      .map((text, at) => (isNumber[at] ? text.padStart(widths[at]!) : text.padEnd(widths[at]!)))
      .join('  ')
      .trimEnd();
  return [heads, ...cells].map((row) => `${lineOf(row)}\n`).join('');
}

const UNITS = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'min'],
  [1_000, 's'],
] as const;

/** A span of time in its largest unit: 90000 is '2 min'. */
export function span(ms: number): string {
  const [size, unit] = UNITS.find(([one]) => ms >= one) ?? [1, 'ms'];
  return `${Math.round(ms / size)} ${unit}`;
}
