import { startServer } from './support/server.js';
import { DataSource } from 'typeorm';
import { ClaimStore } from '../src/storage/claim.store.js';
import { eachInTransaction } from '../src/storage/one.message.js';
import { outboxId, uuidV7 } from '../src/core/outbox-id.js';
import { eventBody } from './support/signed.js';
import { Recorder, keepProfile } from './support/profile.js';
const server = await startServer();
const size = 25;
const url = await server.database(`exp_p`);
const ds = await new DataSource({ type: 'postgres', url, poolSize: 2 }).initialize();
const body = Buffer.from(eventBody('x'));
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
const run = async (n: number) => {
  for (let i = 0; i < n; i += 1)
    await eachInTransaction(ds, { lockTimeoutMs: 500, endAfterMs: 5000 }, (s) => store.claim(s, batch()));
};
await run(300);
const r = new Recorder();
await r.begin();
await run(400);
console.log(keepProfile('/tmp/prof', 'claim', await r.end(), 400 * size));
await server.stop();
process.exit(0);
