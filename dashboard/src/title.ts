/** The title of the browser's tab: the number of rows that wait for a person, and the name of the screen. */
let screen = '';
let waiting = '';

export function titled(name: string): void {
  screen = name;
  show();
}

/** `(3)` before the title while rows are dead or parked. */
export function waitingFor(rows: number): void {
  waiting = rows > 0 ? `(${rows >= 10_000 ? '10,000+' : rows}) ` : '';
  show();
}

function show(): void {
  document.title = `${waiting}${screen} · Webhooks`;
}
