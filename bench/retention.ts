// What a night's pruning costs those who receive meanwhile: node --import @swc-node/register/esm-register bench/retention.ts [events]
import 'reflect-metadata';
import { setTimeout as pause } from 'node:timers/promises';
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { startPostgres } from '../examples/support/postgres.js';
import { webhookInboxMigrations } from '../migrations/index.js';
import { Inbox, OnWebhook, Retention, hmac } from '../src/index.js';
import { createApplication } from '../test/support/application.js';
import { options } from '../test/support/database.js';
import { makePast } from '../test/support/past.js';
import { AWARDEE_SECRET, awardee } from '../test/support/signing.js';

const EVENTS = Number(process.argv[2] ?? 120_000);
const PER_SECOND = 100;

@Injectable()
class Handlers {
  @OnWebhook('awardee', '*')
  handle() {}
}

const postgres = await startPostgres(['shared_buffers=256MB', 'max_wal_size=4GB']);
const dataSource = await new DataSource({
  ...options(postgres.url),
  migrations: webhookInboxMigrations(),
}).initialize();
await dataSource.runMigrations();
const database = {
  query: <T>(sql: string, parameters?: unknown[]) => dataSource.query<T[]>(sql, parameters),
};
console.log(`filling: ${EVENTS} events of 36 days, a handler row and an effect each`);
await makePast(database, { source: 'awardee', events: EVENTS, days: [0, 36] });
await database.query('VACUUM ANALYZE');

const app = await createApplication({
  databaseUrl: postgres.url,
  webhooks: {
    sources: {
      awardee: hmac({
        secrets: [AWARDEE_SECRET],
        signatureHeader: 'X-Awardee-Signature',
        idHeader: 'X-Awardee-Delivery',
        typeHeader: 'X-Awardee-Event',
        retention: { claims: '30d', bodies: '27d', effects: '27d' },
      }),
    },
    reconcile: false,
  },
  providers: [Handlers],
});
const inbox = app.get(Inbox);
let next = 0;

/** Receives at a fixed rate until `until` fires, and returns how long each answer took. */
async function receive(until: AbortSignal): Promise<number[]> {
  const took: number[] = [];
  const open: Promise<void>[] = [];
  while (!until.aborted) {
    const { headers, body } = awardee(`new-${(next += 1)}`, 'grant.made', { some: 'payload' });
    const startedAt = performance.now();
    open.push(
      inbox.receive('awardee', { headers, rawBody: body }).then(({ status }) => {
        took.push(status === 200 ? performance.now() - startedAt : Infinity);
      }),
    );
    await pause(1_000 / PER_SECOND);
  }
  await Promise.all(open);
  return took.sort((a, b) => a - b);
}

function tell(what: string, took: readonly number[]): void {
  const at = (share: number) => took[Math.min(took.length - 1, Math.floor(took.length * share))]!.toFixed(1);
  console.log(`${what}: ${took.length} answers, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`);
}

await receive(AbortSignal.timeout(3_000));
tell('receiving alone', await receive(AbortSignal.timeout(15_000)));
const over = new AbortController();
const startedAt = performance.now();
const [took, report] = await Promise.all([
  receive(over.signal),
  app
    .get(Retention)
    .prune()
    .finally(() => over.abort()),
]);
const seconds = (performance.now() - startedAt) / 1_000;
tell('receiving while pruning', took);
console.log(`pruned in ${seconds.toFixed(1)} s:`, report);
console.log(`claims a second: ${Math.round((report.claims + report.bodies + report.effects) / seconds)}`);
await app.close();
await dataSource.destroy();
await postgres.stop();
