import { startServer } from './support/server.js';
import { DataSource } from 'typeorm';
import { ClaimStore } from '../src/storage/claim.store.js';
import { eachInTransaction, withoutPreparedStatements } from '../src/storage/one.message.js';
import { outboxId, uuidV7 } from '../src/core/outbox-id.js';
import { eventBody } from './support/signed.js';
import { countCpu } from './support/cpu.js';
const server = await startServer();
const size = Number(process.argv[2] ?? 25);
const variants: [string, string[]][] = [
  ['as it is', []],
  [
    'no checks',
    [
      `DO $$ DECLARE r record; BEGIN FOR r IN SELECT conname, conrelid::regclass t FROM pg_constraint WHERE contype='c' AND conrelid IN ('webhook_claim'::regclass,'webhook_outbox'::regclass) LOOP EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', r.t, r.conname); END LOOP; END $$`,
    ],
  ],
  [
    'no claim secondary',
    ['DROP INDEX webhook_claim_id, webhook_claim_received_at, webhook_claim_kept_body, webhook_claim_body'],
  ],
  [
    'no outbox secondary',
    [
      `DO $$ DECLARE r record; BEGIN FOR r IN SELECT indexrelid::regclass i FROM pg_index WHERE indrelid='webhook_outbox'::regclass AND NOT indisprimary LOOP EXECUTE format('DROP INDEX %s', r.i); END LOOP; END $$`,
    ],
  ],
  ['sync off', [`ALTER DATABASE exp_4 SET synchronous_commit = off`]],
];
let nth = 0;
const body = Buffer.from(eventBody('x'));
const runs: { name: string; ds: DataSource; prep: boolean }[] = [];
for (const [name, sql] of variants) {
  const url = await server.database(`exp_${nth++}`);
  let ds = await new DataSource({ type: 'postgres', url, poolSize: 2 }).initialize();
  for (const one of sql) await ds.query(one);
  await ds.destroy();
  ds = await new DataSource({ type: 'postgres', url, poolSize: 2 }).initialize();
  runs.push({ name, ds, prep: true });
  if (nth === 1) {
    const d2 = await new DataSource({ type: 'postgres', url, poolSize: 2 }).initialize();
    withoutPreparedStatements(d2);
    runs.push({ name: 'unprepared', ds: d2, prep: false });
  }
}
const store = new ClaimStore();
const batch = () =>
  Array.from({ length: size }, () => {
    const id = uuidV7();
    return {
      source: 'bench',
      tenant: '',
      eventId: id,
      id,
      type: 'invoice.paid',
      origin: 'delivery' as const,
      verifiedBy: 'abc',
      headers: { 'content-type': 'application/json' },
      body,
      rows: [{ id: outboxId(id, 'x'), name: 'bench/Handlers.handle' }],
    };
  });
for (let round = 0; round < 3; round += 1)
  for (const { name, ds } of runs) {
    await server.quiet();
    const n = Math.ceil(6000 / size);
    const used = countCpu({ node: [process.pid], postmaster: server.postmaster });
    const t = performance.now();
    for (let i = 0; i < n; i += 1)
      await eachInTransaction(ds, { lockTimeoutMs: 500, endAfterMs: 5000 }, (s) => store.claim(s, batch()));
    const ms = performance.now() - t;
    const cpu = used();
    console.log(
      round,
      name.padEnd(22),
      'us/claim wall',
      ((ms * 1000) / (n * size)).toFixed(1),
      'pg',
      ((cpu.postgres * 1e6) / (n * size)).toFixed(1),
      'node',
      ((cpu.node * 1e6) / (n * size)).toFixed(1),
    );
  }
await server.stop();
process.exit(0);
