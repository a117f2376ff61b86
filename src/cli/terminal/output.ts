import { Progress } from './progress.js';
import { tableText, type Cell } from './table.js';

/** Where a command writes. The application's own output goes to `error`, so that `out` holds the command's answer alone. */
export interface Streams {
  readonly out: (text: string) => void;
  readonly error: (text: string) => void;
  /** Columns of the terminal that `error` is; undefined where it is none. */
  readonly columns: number | undefined;
}

/** A command's answer: tables for people, or one JSON document for programs. */
export class Output {
  constructor(
    private readonly streams: Streams,
    readonly json: boolean,
  ) {}

  /** The whole answer: `value` under `--json`, else what `people` prints. */
  answer(value: unknown, people: () => void): void {
    if (this.json) this.streams.out(`${JSON.stringify(value, undefined, 2)}\n`);
    else people();
  }

  /** One of many answers, such as an event of `tail`: a line of JSON, or of text. */
  item(value: unknown, text: string): void {
    this.streams.out(`${this.json ? JSON.stringify(value) : text}\n`);
  }

  /** A line for people. Nothing under `--json`. */
  line(text = ''): void {
    if (!this.json) this.streams.out(`${text}\n`);
  }

  table(heads: readonly string[], rows: readonly (readonly Cell[])[]): void {
    if (!this.json) this.streams.out(tableText(heads, rows));
  }

  /** Beside the answer: hints and warnings. */
  note(text: string): void {
    this.streams.error(`${text}\n`);
  }

  progress(what: string): Progress {
    return new Progress(this.streams, what);
  }
}
