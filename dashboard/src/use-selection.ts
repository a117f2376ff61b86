import { useEffect, useRef, useState } from 'preact/hooks';
import type { Selection } from './parts/table.tsx';

/** Rows that a person has chosen; none any more when the list is another one. */
export function useSelection(list: string): Selection {
  const [chosen, onChange] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => onChange(new Set()), [list]);
  return { chosen, onChange };
}

/**
 * The chosen rows, in the order of the list. Newer rows may push a chosen one off the page: it stays chosen, behind those that are shown.
 */
export function useChosen<T extends { readonly id: string }>(
  { chosen }: Selection,
  shown: readonly T[],
): T[] {
  const kept = useRef(new Map<string, T>()).current;
  for (const row of shown) kept.set(row.id, row);
  for (const id of kept.keys()) if (!chosen.has(id)) kept.delete(id);
  const there = shown.filter(({ id }) => chosen.has(id));
  const ids = new Set(there.map(({ id }) => id));
  return [...there, ...[...kept.values()].filter(({ id }) => !ids.has(id))];
}
