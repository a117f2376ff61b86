import { fork } from 'node:child_process';
import { once } from 'node:events';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { send } from '../../support/http.js';
import { awardee } from '../../support/signing.js';
import type { Answers } from './attackers.js';

/** Answers of each kind of sender, and what valid deliveries to other sources met meanwhile. */
export interface AttackReport {
  readonly answers: Readonly<Record<string, Readonly<Record<string, number>>>>;
  readonly valid: number;
  readonly validAnswers: Readonly<Record<string, number>>;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** By how much the event loop of the valid senders was late, which their times contain: 99 of 100 turns by less. */
  readonly sendersLateP99Ms: number;
}

/** Valid deliveries go to a source that nobody attacks. */
const VALID = '/webhooks/keyed';
const VALID_EVERY_MS = 25;

/** What each kind may be answered. A connection may be closed where its body does not come. */
export const EXPECTED: Readonly<Record<string, readonly string[]>> = {
  nested: ['401', '503'],
  flooding: ['401', '503'],
  oversized: ['413', '503'],
  unsigned: ['401'],
  compressed: ['413', '503'],
  unfinished: ['503', 'over'],
  slow: ['503', 'over'],
};

/** Kinds that are answered while the attack goes on; the others may wait for its end. */
const ANSWERED_MEANWHILE = ['nested', 'flooding', 'oversized', 'unsigned', 'compressed'];

/** On a machine that is busy, an attack goes on until it shows something, for so long at most. */
const MOST_MS = 120_000;
/** Valid deliveries on their way at once: more would measure how long they wait for each other. */
const MOST_UNDER_WAY = 20;

/**
 * Has senders whom nobody believes send for so long, beside valid deliveries to another source.
 * @param enough valid deliveries: with fewer the attack goes on, as without an answer to each kind of sender
 */
export async function attack(
  origin: string,
  ms: number,
  name: string,
  enough: number,
): Promise<AttackReport> {
  const attackers = fork(fileURLToPath(new URL('./attackers.ts', import.meta.url)), [origin]);
  let answers: Answers = {};
  attackers.on('message', (told: Answers) => (answers = told));
  const ended = once(attackers, 'exit');
  const late = monitorEventLoopDelay({ resolution: 10 });
  late.enable();
  const startedAt = performance.now();
  const validAnswers: Record<string, number> = {};
  const times: number[] = [];
  const underWay = new Set<Promise<void>>();
  const shows = () =>
    times.length >= enough && ANSWERED_MEANWHILE.every((kind) => answersTo(answers, kind) > 0);
  for (let nth = 0; ; nth += 1) {
    const elapsedMs = performance.now() - startedAt;
    if (elapsedMs >= ms && (shows() || elapsedMs >= MOST_MS)) break;
    if (underWay.size < MOST_UNDER_WAY) {
      const delivery = deliver(origin, `${name}-${nth}`, times, validAnswers);
      underWay.add(delivery);
      void delivery.finally(() => underWay.delete(delivery));
    }
    await sleep(VALID_EVERY_MS);
  }
  attackers.send('over');
  late.disable();
  await Promise.all([...underWay, ended]);
  times.sort((a, b) => a - b);
  const at = (part: number) => Math.round(times[Math.floor((times.length - 1) * part)] ?? 0);
  return {
    answers,
    valid: times.length,
    validAnswers,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
    sendersLateP99Ms: Math.round(late.percentile(99) / 1e6),
  };
}

async function deliver(
  origin: string,
  id: string,
  times: number[],
  counts: Record<string, number>,
): Promise<void> {
  const startedAt = performance.now();
  const { status } = await send(origin, { path: VALID, ...awardee(id, 'happened', { id, resource: 'one' }) });
  times.push(performance.now() - startedAt);
  count(counts, String(status));
}

const answersTo = (answers: Answers, kind: string) =>
  Object.values(answers[kind] ?? {}).reduce((sum, one) => sum + one, 0);

function count(counts: Record<string, number>, answer: string): void {
  counts[answer] = (counts[answer] ?? 0) + 1;
}
