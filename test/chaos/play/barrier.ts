import { setTimeout as sleep } from 'node:timers/promises';
import { send } from '../../support/http.js';
import { awardee } from '../../support/signing.js';

export interface BarrierReport {
  readonly rounds: number;
  /** Rounds in which other than one copy was told `ok`. */
  readonly wrongRounds: number;
  readonly answers: Readonly<Record<string, number>>;
  /** Of events that have nothing to do with it, sent meanwhile. */
  readonly unrelatedP99Ms: number;
}

const COPIES = 50;

/** Releases 50 copies of an event at once over all receivers, round after round, while unrelated events come in. */
export async function barrier(origins: readonly string[], rounds: number): Promise<BarrierReport> {
  const answers: Record<string, number> = {};
  const unrelated: number[] = [];
  let wrongRounds = 0;
  const over = new AbortController();
  const bystander = (async () => {
    for (let n = 0; !over.signal.aborted; n += 1) {
      const startedAt = performance.now();
      await deliver(origins[n % origins.length]!, `bystander-${n}`);
      unrelated.push(performance.now() - startedAt);
      await sleep(20);
    }
  })();
  for (let round = 0; round < rounds; round += 1) {
    const copies = Array.from({ length: COPIES }, (_, n) =>
      deliver(origins[n % origins.length]!, `barrier-${round}`),
    );
    const texts = await Promise.all(copies);
    for (const text of texts) answers[text] = (answers[text] ?? 0) + 1;
    if (texts.filter((text) => text === '200 {"status":"ok"}').length !== 1) wrongRounds += 1;
  }
  over.abort();
  await bystander;
  unrelated.sort((a, b) => a - b);
  const p99 = unrelated[Math.min(unrelated.length - 1, Math.floor(unrelated.length * 0.99))] ?? 0;
  return { rounds, wrongRounds, answers, unrelatedP99Ms: Math.round(p99) };
}

/** Again while the receiver has no time for it, as a provider does: only what is final counts. */
async function deliver(origin: string, id: string): Promise<string> {
  for (;;) {
    // On a connection of its own: one that is kept may be closed in the moment in which it is used again.
    const signed = awardee(id, 'happened', { id, resource: 'one' });
    const { status, text } = await send(origin, { path: '/webhooks/own', ...signed });
    if (status !== 503) return `${status} ${text}`;
    await sleep(50);
  }
}
