import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import type { Ground, ModeReport } from './modes.js';
import type { ChaosOptions } from './options.js';
import { attack, EXPECTED, type AttackReport } from './play/attack.js';
import { Fleet } from './play/fleet.js';
import { ChaosSink } from './play/sink.js';

const ENOUGH_VALID = 20;

/** What an attack may leave behind: level memory after it, and while it goes on twice the byte budget and what its sockets take. */
const LEVEL_HEAP_BYTES = 24 * 1024 * 1024;
const MOST_RSS_BYTES = 320 * 1024 * 1024;
/** A line a second for each source and reason, and those of the start. */
const LINES_A_SECOND = 15;
const REJECTION_ROWS_A_SECOND = 20;

/** Both adapters in turn, each with a receiver of its own on one database. */
export async function playAttack(
  { dir, seconds, seed }: ChaosOptions,
  { databaseUrl, program, say }: Ground,
): Promise<ModeReport> {
  const figures: Record<string, number> = {};
  const faults: string[] = [];
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const sink = await ChaosSink.start({ write: () => undefined }, 100);
  try {
    for (const adapter of ['express', 'fastify'] as const) {
      say(`attack on ${adapter}, ${seconds} s`);
      const under = join(dir, adapter);
      const setup = { databaseUrl, adapter, dir: under, program, sinkUrl: sink.url, size: 1 };
      const fleet = await Fleet.start(setup);
      try {
        const told = await underAttack(
          fleet,
          client,
          join(under, 'chaos-0.log'),
          seconds,
          `${adapter}-${seed}`,
        );
        faults.push(...told.faults.map((fault) => `${adapter}: ${fault}`));
        for (const [name, value] of Object.entries(told.figures)) figures[`${adapter} ${name}`] = value;
      } finally {
        await fleet.stop();
      }
    }
    return { mode: 'attack', figures, faults };
  } finally {
    sink.stop();
    await client.end();
  }
}

async function underAttack(
  fleet: Fleet,
  client: Client,
  logFile: string,
  seconds: number,
  name: string,
): Promise<{ figures: Record<string, number>; faults: string[] }> {
  const [receiver] = fleet.receivers;
  const { origin } = receiver!;
  // Whatever is loaded at the first request is there before memory is compared.
  await attack(origin, 2_000, `${name}-first`, 1);
  const before = await receiver!.memory();
  const counts = await countsOf(client);
  const lines = await linesOf(logFile);
  let mostRss = 0;
  let lateMs = 0;
  const watch = setInterval(() => {
    void receiver!.memory(false).then(({ rssBytes, lateP99Ms }) => {
      mostRss = Math.max(mostRss, rssBytes);
      lateMs = Math.max(lateMs, lateP99Ms);
    });
  }, 1_000);
  const startedAt = performance.now();
  const report = await attack(origin, seconds * 1_000, name, ENOUGH_VALID).finally(() =>
    clearInterval(watch),
  );
  const attackedS = (performance.now() - startedAt) / 1_000;
  // Rejections are explained and written down in rounds of five seconds.
  await sleep(6_000);
  const after = await receiver!.memory();
  const now = await countsOf(client);
  const figures = {
    refused: Object.values(report.answers).reduce((sum, one) => sum + total(one), 0),
    valid: report.valid,
    validP50Ms: report.p50Ms,
    validP99Ms: report.p99Ms,
    sendersLateP99Ms: report.sendersLateP99Ms,
    receiverLateP99Ms: lateMs,
    heapGrowthBytes: after.heapBytes - before.heapBytes,
    mostRssBytes: mostRss,
    logLines: (await linesOf(logFile)) - lines,
    rejectionRows: now.rejections - counts.rejections,
    claims: now.claims - counts.claims,
  };
  return { figures, faults: [...answerFaults(report), ...costFaults(figures, attackedS, before.rssBytes)] };
}

function answerFaults({ answers, valid, validAnswers }: AttackReport): string[] {
  const strange = Object.entries(answers).flatMap(([kind, counted]) =>
    Object.keys(counted)
      .filter((answer) => !EXPECTED[kind]!.includes(answer))
      .map((answer) => `${kind} senders were answered ${answer} ${counted[answer]} times`),
  );
  const missing = Object.keys(EXPECTED).filter((kind) => total(answers[kind] ?? {}) === 0);
  return [
    ...strange,
    ...(valid < ENOUGH_VALID ? [`the run shows nothing: ${valid} valid deliveries`] : []),
    ...missing.map((kind) => `the run shows nothing: no answer to ${kind} senders`),
    ...(validAnswers['200'] === valid
      ? []
      : [`valid deliveries were answered ${JSON.stringify(validAnswers)}`]),
  ];
}

function costFaults(figures: Readonly<Record<string, number>>, seconds: number, rssBefore: number): string[] {
  const limits: [string, number][] = [
    ['heapGrowthBytes', LEVEL_HEAP_BYTES],
    ['mostRssBytes', rssBefore + MOST_RSS_BYTES],
    ['logLines', seconds * LINES_A_SECOND],
    ['rejectionRows', (seconds + 10) * REJECTION_ROWS_A_SECOND],
  ];
  const beyond = limits.filter(([name, most]) => figures[name]! > most);
  return [
    ...beyond.map(([name, most]) => `${name}: at most ${most}, found ${figures[name]}`),
    ...(figures['claims'] === figures['valid']
      ? []
      : [`claims: ${figures['claims']} of ${figures['valid']}`]),
  ];
}

const total = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((a, b) => a + b, 0);

async function linesOf(file: string): Promise<number> {
  return (await readFile(file, 'utf8')).split('\n').length;
}

async function countsOf(client: Client): Promise<{ claims: number; rejections: number }> {
  const { rows } = await client.query<{ claims: number; rejections: number }>(
    `SELECT (SELECT count(*)::int FROM webhook_claim) AS claims,
            (SELECT count(*)::int FROM webhook_rejection) AS rejections`,
  );
  return rows[0]!;
}
