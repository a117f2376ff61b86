/** Begins a formula in a spreadsheet, also behind a space. */
const FORMULA = /^\s*[=+\-@\t\r]/;

/** Rows as CSV (RFC 4180), with a head. Text that a spreadsheet would run as a formula gets an apostrophe before it. */
export function csvOf(rows: readonly object[]): string {
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = rows.map((row) =>
    names.map((name) => field((row as Record<string, unknown>)[name])).join(','),
  );
  return [names.join(','), ...lines].map((line) => `${line}\r\n`).join('');
}

function field(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  const safe = typeof value === 'string' && FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Rows as JSON, one a line. */
export function jsonLinesOf(rows: readonly object[]): string {
  return rows.map((row) => `${JSON.stringify(row)}\n`).join('');
}
