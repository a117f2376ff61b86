import { createWriteStream, existsSync, readFileSync } from 'node:fs';
import type { ChaosSource } from '../receiver/sources.js';

/** What the provider notes of each of its requests. */
export interface Sent {
  readonly source: ChaosSource;
  readonly id: string;
  /** 0: no answer. */
  readonly status: number;
  readonly body: string;
  /** When it was sent, by the clock of `Outage.at`. */
  readonly at: number;
  readonly ms: number;
  /** The receiver's name. */
  readonly to: string;
}

/** What a sink notes of each call. */
export interface SinkCall {
  readonly sink: 'idempotent' | 'raw';
  readonly key: string;
  readonly source: ChaosSource;
  readonly eventId: string;
  /** Refused calls did nothing; a repeated key does nothing either, at the idempotent sink. */
  readonly applied: boolean;
}

/** What was seen of a receiver in the moment of its death, when it was frozen already. */
export interface Kill {
  /** The dead process, as `leased_by` names it. */
  readonly owner: string;
  /** When, by the clock of the database, in milliseconds. */
  readonly diedAt: number;
  /** Another process, which had just lost the connection that holds its lock. */
  readonly cut?: string;
  /** Other processes that had been up for long enough to have seen its lock held. */
  readonly watchers: readonly string[];
  /** `point before`, `point after`, or `anywhere`. */
  readonly at: string;
  /** A point that was waited for in vain, when it was killed where it was. */
  readonly missed?: string;
  readonly leased: number;
  /** Transactions that had inserted a claim and not committed. */
  readonly claiming: number;
  /** Calls of the raw sink's effect that were begun and not settled. */
  readonly begun: number;
}

/** What was seen of a database that went away under load, and of the one that was there afterwards. */
export interface Outage {
  readonly kind: 'stop' | 'promotion';
  /** When the server had ended. */
  readonly at: number;
  /** When there was one that took connections and could be written to. */
  readonly backAt: number;
  /** Leases that ran when it ended. */
  readonly leased: number;
  /** Transactions that had inserted a claim and were not over, in the moment before. */
  readonly claiming: number;
  /** Calls of the raw sink's effect that were begun and not settled. */
  readonly begun: number;
  /** Events whose claims are in the tables, and that nobody had been acknowledged. */
  readonly unanswered: number;
}

/** A lease that had ended, and that nobody had taken yet. */
export interface Overdue {
  readonly id: string;
  readonly attempt: number;
  readonly ms: number;
  /** For how long the oldest of the receivers had been up, and the server. */
  readonly upMs: number;
  /** What a timer and two statements of the watch were late by, at most, in the last ten seconds: how busy machine and server are. */
  readonly lookMs: number;
}

export const LOGS = {
  provider: 'provider.jsonl',
  sink: 'sink.jsonl',
  kills: 'kills.jsonl',
  outages: 'outages.jsonl',
  overdue: 'overdue.jsonl',
} as const;

/** A file of JSON lines. */
export class Log<T> {
  private readonly stream;

  constructor(path: string) {
    this.stream = createWriteStream(path);
  }

  write(entry: T): void {
    this.stream.write(`${JSON.stringify(entry)}\n`);
  }

  async close(): Promise<void> {
    await new Promise((resolve) => this.stream.end(resolve));
  }
}

/** A run writes the logs of its own faults; the others are empty. */
export function readLog<T>(path: string): T[] {
  if (!existsSync(path)) return [];
  return readFileSync(path, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
