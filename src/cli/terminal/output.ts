import { Progress } from './progress.js';
import type { Streams } from './streams.js';
import { tableText, type Cell } from './table.js';

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
