/** A word of a filter: `state:dead,parked`, or with a minus before it what must not be. */
export interface Test {
  readonly key: string;
  /** Of a payload, with the key `payload`. */
  readonly path?: string;
  readonly not: boolean;
  /** One of them must match. */
  readonly values: readonly string[];
}

/** A person's filter of a list. */
export interface ListFilter {
  readonly tests: readonly Test[];
  readonly after?: Date;
  readonly before?: Date;
  /** Sources that the person may see; undefined for all. */
  readonly visible?: readonly string[];
  /** Sources and tenants that the person may see; undefined for all. */
  readonly pairs?: readonly { readonly source: string; readonly tenant: string }[];
}

/** How one key is asked of a row. */
export type Asked = (values: readonly string[], p: Parameters) => string;

/** The text, or its start where a value ends with `*`. */
export const textIs =
  (column: string): Asked =>
  (values, p) => {
    const whole = values.filter((value) => !value.endsWith('*'));
    const starts = values.filter((value) => value.endsWith('*')).map((value) => value.slice(0, -1));
    const asked = starts.map((start) => `starts_with(${column}, ${p.add(start)})`);
    if (whole.length > 0) asked.push(`${column} = ANY(${p.add(whole)}::text[])`);
    return `(${asked.join(' OR ')})`;
  };

/** The text contains it, in capitals or not. */
export const textHas =
  (column: string): Asked =>
  (values, p) =>
    `(${values.map((value) => `position(lower(${p.add(value)}) IN lower(${column})) > 0`).join(' OR ')})`;

/** `3`, `>3`, `>=3`, `<3`, `<=3`; the reader has refused anything else. */
export const numberIs =
  (column: string): Asked =>
  (values, p) =>
    `(${values
      .map((value) => {
        const [, sign = '', digits = ''] = /^([<>]=?)?(\d+)$/.exec(value) ?? [];
        return `${column} ${sign || '='} ${p.add(Number(digits))}::bigint`;
      })
      .join(' OR ')})`;

/** Conditions on rows of a list, to be joined by AND. A test with a key that `columns` does not have is left to the caller. */
export function conditionsOf(
  { tests, after, before, visible, pairs }: ListFilter,
  columns: Readonly<Record<string, Asked>>,
  at: { readonly time: string; readonly source: string },
  p: Parameters,
): string[] {
  const where = tests.flatMap(({ key, not, values }) => {
    const asked = columns[key]?.(values, p);
    if (asked === undefined) return [];
    return [not ? `NOT coalesce(${asked}, false)` : asked];
  });
  if (after !== undefined) where.push(`${at.time} >= ${p.add(after)}::timestamptz`);
  if (before !== undefined) where.push(`${at.time} < ${p.add(before)}::timestamptz`);
  if (visible !== undefined) where.push(`${at.source} = ANY(${p.add(visible)}::text[])`);
  if (pairs !== undefined)
    where.push(
      `(${at.source}, tenant) IN (SELECT * FROM unnest(${p.add(pairs.map(({ source }) => source))}::text[], ${p.add(pairs.map(({ tenant }) => tenant))}::text[]))`,
    );
  return where.length > 0 ? where : ['true'];
}

/** Values of a statement, each named by its place. */
export class Parameters {
  readonly values: unknown[] = [];

  add(value: unknown): string {
    this.values.push(value);
    return `$${this.values.length}`;
  }
}
