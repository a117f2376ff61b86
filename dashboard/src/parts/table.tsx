import type { ComponentChildren } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { plural } from '../format.ts';

/** A column of a list. On a narrow screen each row is a card, and `head` the label of each of its values. */
export interface Column<T> {
  readonly head: string;
  /** Width on a wide screen, so that no value pushes the others out; one column of a table has none. */
  readonly width?: string;
  readonly kind?: 'num' | 'end' | 'mono' | 'text';
  /** The full text, where the cell may cut it. */
  readonly title?: (row: T) => string;
  /** null leaves the value out of a card. */
  readonly cell: (row: T) => ComponentChildren;
}

/** Rows that a person has chosen, by id. */
export interface Selection {
  readonly chosen: ReadonlySet<string>;
  readonly onChange: (chosen: ReadonlySet<string>) => void;
}

/** A list: a table on a wide screen, labelled cards on a narrow one. Rows do not move while the pointer is over them. */
export function Table<T>(props: {
  label: string;
  rows: T[];
  idOf: (row: T) => string;
  columns: readonly Column<T>[];
  select?: Selection | undefined;
}) {
  const { columns, idOf, select } = props;
  const { shown, fresh, hold, release } = useSteady(props.rows, idOf);
  return (
    <div class="table-wrap">
      {fresh > 0 && (
        <button type="button" class="quiet new" onClick={release}>
          {fresh} new
        </button>
      )}
      <table class="cards" aria-label={props.label}>
        <colgroup>
          {select && <col style={{ width: '40px' }} />}
          {columns.map(({ head, width }) => (
            <col key={head} style={width ? { width } : {}} />
          ))}
        </colgroup>
        <thead>
          <tr>
            {select && (
              <th scope="col">
                <All ids={shown.map(idOf)} select={select} />
              </th>
            )}
            {columns.map(({ head, kind }) => (
              <th key={head} scope="col" class={kind}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody onPointerEnter={(event) => event.pointerType === 'mouse' && hold()} onPointerLeave={release}>
          {shown.map((row) => (
            <tr key={idOf(row)}>
              {select && (
                <td class="pick">
                  <Pick id={idOf(row)} select={select} />
                </td>
              )}
              {columns.map((column) => (
                <Cell key={column.head} column={column} row={row} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Cell<T>({ column, row }: { column: Column<T>; row: T }) {
  const content = column.cell(row);
  const isEmpty = content === null || content === '';
  return (
    <td
      class={`${column.kind ?? ''} ${isEmpty ? 'none' : ''}`}
      data-label={column.head}
      title={column.title?.(row)}
    >
      {content}
    </td>
  );
}

function All({ ids, select }: { ids: string[]; select: Selection }) {
  const all = ids.length > 0 && ids.every((id) => select.chosen.has(id));
  return (
    <input
      type="checkbox"
      aria-label="Select all rows shown"
      checked={all}
      onChange={() => select.onChange(all ? new Set() : new Set([...select.chosen, ...ids]))}
    />
  );
}

function Pick({ id, select }: { id: string; select: Selection }) {
  const change = () => {
    const next = new Set(select.chosen);
    if (!next.delete(id)) next.add(id);
    select.onChange(next);
  };
  return (
    <input type="checkbox" aria-label={`Select ${id}`} checked={select.chosen.has(id)} onChange={change} />
  );
}

/** What can be done with the rows that are chosen. */
export function Bulk(props: {
  select: Selection;
  noun: string;
  onAll?: () => void;
  children: ComponentChildren;
}) {
  const n = props.select.chosen.size;
  if (n === 0) return null;
  return (
    <div class="bulk" role="region" aria-label="Selection">
      <span role="status">{plural(n, props.noun)} selected</span>
      {props.onAll && (
        <button type="button" class="quiet" onClick={props.onAll}>
          Select all that match
        </button>
      )}
      <button type="button" class="quiet" onClick={() => props.select.onChange(new Set())}>
        Clear
      </button>
      {props.children}
    </div>
  );
}

/**
 * Keeps the order of the rows while the pointer is over the list, and shows their newest content. New rows are only counted, so that
 * nobody clicks on a row that has just moved.
 */
export function useSteady<T>(rows: T[], idOf: (row: T) => string) {
  const [held, setHeld] = useState<T[] | undefined>();
  const steady = useMemo(() => {
    if (held === undefined) return { shown: rows, fresh: 0 };
    const now = new Map(rows.map((row) => [idOf(row), row]));
    const known = new Set(held.map(idOf));
    const lastKnown = rows.findLastIndex((row) => known.has(idOf(row)));
    const older = rows.slice(lastKnown + 1);
    return {
      shown: [...held.map((row) => now.get(idOf(row)) ?? row), ...(lastKnown < 0 ? [] : older)],
      fresh: rows.slice(0, lastKnown + 1).filter((row) => !known.has(idOf(row))).length,
    };
  }, [rows, held]);
  return { ...steady, hold: () => setHeld(rows), release: () => setHeld(undefined) };
}
