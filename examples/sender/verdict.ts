import type { LedgerEntry } from './ledger.js';
import type { SentEvent } from './sent.event.js';
import type { Sink } from './sink.js';

/** What the tables and the sink say about everything that was sent. */
export interface Verdict {
  /** Events with a business record. */
  readonly handled: number;
  /** Of those: events whose handler had to run again. */
  readonly retried: number;
  /** Calls at the sink, and the distinct keys among them that happened. */
  readonly sinkCalls: number;
  readonly sinkKeys: number;
  /** Acknowledged, and yet without a business record, or without its effect. */
  readonly lost: readonly string[];
  /** Claimed, applied or carried out more than once. */
  readonly doubled: readonly string[];
}

export function judge(
  entries: readonly LedgerEntry[],
  acknowledged: ReadonlySet<SentEvent>,
  sink: Sink,
): Verdict {
  const promised = new Set([...acknowledged].map((event) => nameOf(event.source, event.id)));
  const keys = new Map<string, number>();
  const ours = new Set(entries.map((entry) => nameOf(entry.source, entry.event_id)));
  let sinkCalls = 0;
  for (const effect of sink.effects.values()) {
    const name = nameOf(effect.source, effect.eventId);
    // A database of an earlier run may still owe effects of that run.
    if (!ours.has(name)) continue;
    sinkCalls += effect.calls;
    if (effect.happened) keys.set(name, (keys.get(name) ?? 0) + 1);
  }
  const lost = entries.filter(
    (entry) => promised.has(nameOfEntry(entry)) && (!isHandled(entry) || !keys.has(nameOfEntry(entry))),
  );
  const doubled = entries.filter(
    (entry) =>
      entry.claims > 1 ||
      entry.effects > 1 ||
      (entry.applied_count ?? 1) !== 1 ||
      (keys.get(nameOfEntry(entry)) ?? 0) > 1,
  );
  return {
    handled: entries.filter((entry) => entry.applied_count !== null).length,
    retried: entries.filter((entry) => entry.attempts > 1).length,
    sinkCalls,
    sinkKeys: [...keys.values()].reduce((sum, count) => sum + count, 0),
    lost: lost.map(nameOfEntry),
    doubled: doubled.map(nameOfEntry),
  };
}

function isHandled(entry: LedgerEntry): boolean {
  return entry.applied_count !== null && entry.state === 'processed' && entry.effects_done === entry.effects;
}

function nameOfEntry({ source, event_id }: LedgerEntry): string {
  return nameOf(source, event_id);
}

function nameOf(source: string, eventId: string): string {
  return `${source}/${eventId}`;
}
