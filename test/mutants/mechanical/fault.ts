/** A fault that was derived from the code: a part of a file that is replaced. */
export interface Fault {
  /** The same for as long as the statement or line that it is planted in stays: file, place in it, what is done. */
  readonly name: string;
  readonly file: string;
  readonly start: number;
  readonly end: number;
  readonly replace: string;
}

/** What is done to which part, before it has its name. */
export interface Edit {
  readonly what: string;
  readonly start: number;
  readonly end: number;
  readonly replace: string;
}

/** Long enough to be found by eye. */
const SHOWN = 70;

/** A text of the code as one line. */
export function shown(text: string): string {
  const line = text.replaceAll(/\s+/g, ' ').trim();
  return line.length > SHOWN ? `${line.slice(0, SHOWN - 1)}…` : line;
}

/** Names faults; of those that would have one name, each after the first gets a number. */
export function named(file: string, edits: readonly (Edit & { readonly place: string })[]): Fault[] {
  const counts = new Map<string, number>();
  return edits.map(({ place, what, start, end, replace }) => {
    const name = `${file} ${place}: ${what}`;
    const nth = (counts.get(name) ?? 0) + 1;
    counts.set(name, nth);
    return { name: nth === 1 ? name : `${name} (${nth})`, file, start, end, replace };
  });
}
