import { csvOf, jsonLinesOf } from '../csv.ts';

/** Saves the shown rows of a list as a file. The browser makes the file. */
export function Export({ name, rows }: { name: string; rows: readonly object[] }) {
  const save = (text: string, type: string, ending: string) => {
    const url = URL.createObjectURL(new Blob([text], { type }));
    Object.assign(document.createElement('a'), { href: url, download: `${name}.${ending}` }).click();
    URL.revokeObjectURL(url);
  };
  return (
    <>
      <button type="button" onClick={() => save(csvOf(rows), 'text/csv', 'csv')}>
        Export CSV
      </button>
      <button type="button" onClick={() => save(jsonLinesOf(rows), 'application/x-ndjson', 'jsonl')}>
        Export JSON lines
      </button>
    </>
  );
}
