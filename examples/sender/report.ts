import Table from 'cli-table3';
import type { Outcome } from './sender.js';

/** The outcome as a table for people. */
export function report({ plan, tally, stormMs, ...verdict }: Outcome): string {
  const table = new Table({
    colAligns: ['left', 'right', 'left'],
    style: { head: [], border: [] },
    chars: { mid: '', 'left-mid': '', 'mid-mid': '', 'right-mid': '' },
  });
  const number = (value: number) => value.toLocaleString('en');
  const row = (what: string, value: number | string, note = '') =>
    table.push([what, typeof value === 'number' ? number(value) : value, note]);
  const sorted = [...tally.ackMs].sort((a, b) => a - b);
  const percentile = (share: number) => `${(sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1)} ms`;
  const unexpected = [...tally.unexpected.values()].reduce((sum, count) => sum + count, 0);

  row('events', plan.events.length, bySource(plan.events));
  row('deliveries', tally.deliveries, `${number(plan.late.length)} of them long after the event had settled`);
  row('new', tally.ok);
  row('duplicates', tally.duplicates);
  row('rejected: tampered', tally.rejected.tampered, 'body changed after signing');
  row('rejected: stale', tally.rejected.stale, 'signed 15 minutes ago');
  row('postponed', tally.postponed, 'told to come back, and did');
  row('answered otherwise', unexpected);
  row(
    'handled',
    verdict.handled,
    `${number(verdict.retried)} of them after a first attempt that was made to fail`,
  );
  row(
    'effects at the sink',
    verdict.sinkKeys,
    `one key each, in ${number(verdict.sinkCalls)} calls: some fail at first`,
  );
  row('lost', verdict.lost.length);
  row('doubled', verdict.doubled.length);
  row(
    'deliveries per second',
    Math.round((plan.storm.length / stormMs) * 1000),
    'sender, receiver and PostgreSQL on this machine',
  );
  row('acknowledged within', percentile(0.5), 'p50, under that storm');
  row('', percentile(0.99), 'p99');
  return table.toString();
}

/** Whether everything that was promised was kept, and nothing was believed that should not have been. */
export function isClean({ tally, lost, doubled, plan }: Outcome): boolean {
  return (
    lost.length === 0 &&
    doubled.length === 0 &&
    tally.unexpected.size === 0 &&
    tally.acknowledged.size === plan.events.length
  );
}

/** What went wrong, one line for each. */
export function faults({ tally, lost, doubled, plan }: Outcome): string[] {
  return [
    ...lost.map((name) => `lost: ${name}`),
    ...doubled.map((name) => `doubled: ${name}`),
    ...[...tally.unexpected].map(([what, count]) => `unexpected: ${what} (${count} times)`),
    ...plan.events
      .filter((event) => !tally.acknowledged.has(event))
      .map((event) => `never acknowledged: ${event.source}/${event.id}`),
  ];
}

function bySource(events: Outcome['plan']['events']): string {
  const counts = new Map<string, number>();
  for (const { source } of events) counts.set(source, (counts.get(source) ?? 0) + 1);
  return [...counts].map(([source, count]) => `${source} ${count}`).join(', ');
}
