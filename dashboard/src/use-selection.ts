import { useEffect, useState } from 'preact/hooks';
import type { Selection } from './parts/table.tsx';

/** Rows that a person has chosen; none any more when the list is another one. */
export function useSelection(list: string): Selection {
  const [chosen, onChange] = useState<ReadonlySet<string>>(new Set());
  useEffect(() => onChange(new Set()), [list]);
  return { chosen, onChange };
}
