import { createHmac, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from 'pg';
import { post } from '../sender/post.js';
import { secretOf, type ExampleSource } from '../support/secrets.js';

const PATIENCE_MS = 60_000;

/** What the deliveries below leave when nothing of them runs any more. */
const LEFT = `
  SELECT (SELECT count(*) FROM webhook_outbox WHERE name = 'awardee/revoke-grant' AND state = 'dead') >= 3
     AND EXISTS (SELECT FROM webhook_outbox WHERE name = 'loyalty-points' AND state = 'dead')
     AND EXISTS (SELECT FROM webhook_outbox WHERE name = 'receipt' AND state = 'done')
     AND EXISTS (SELECT FROM webhook_outbox WHERE name = 'pay-out' AND state = 'parked')
     AND EXISTS (SELECT FROM webhook_outbox WHERE name = 'awardee/ship-order' AND attempt > 0 AND leased_by IS NULL) AS left`;

/**
 * Sends what fails in the first release of the demo: a handler with a mistake, an effect that is refused, one in doubt, work of a
 * handler that the second release calls otherwise, and a delivery signed with the old secret. Waits until all of it is there.
 * @throws Error when it is not there in a minute
 */
export async function leaveFaults(origin: string, databaseUrl: string): Promise<void> {
  for (const grant of ['g-1', 'g-2', 'g-3']) await awardee(origin, 'grant.revoked', { grant });
  await awardee(origin, 'order.paid', { order: 'o-7', amount: 4_200 });
  await awardee(origin, 'payout.requested', { payout: 'p-3', amount: 9_900 });
  await awardee(origin, 'order.packed', { order: 'o-7' });
  for (const secret of ['sesmetric-old', 'sesmetric'] as const)
    await sesmetric(origin, secret, { type: 'bounce.seen', address: 'ada@example.com' });
  await until(databaseUrl, LEFT);
}

async function awardee(origin: string, type: string, payload: object): Promise<void> {
  const body = Buffer.from(JSON.stringify(payload));
  await accepted(origin, 'awardee', body, {
    'x-awardee-delivery': randomUUID(),
    'x-awardee-event': type,
    'x-awardee-signature': hex('awardee', body),
  });
}

async function sesmetric(origin: string, secret: ExampleSource, payload: object): Promise<void> {
  const body = Buffer.from(JSON.stringify({ id: randomUUID(), ...payload }));
  const timestamp = String(Math.floor(Date.now() / 1000));
  await accepted(origin, 'sesmetric', body, {
    'x-sesmetric-timestamp': timestamp,
    'x-sesmetric-signature': hex(secret, Buffer.concat([Buffer.from(`${timestamp}.`), body])),
  });
}

const hex = (secret: ExampleSource, signed: Buffer) =>
  createHmac('sha256', secretOf(secret)).update(signed).digest('hex');

async function accepted(
  origin: string,
  source: string,
  body: Buffer,
  headers: Record<string, string>,
): Promise<void> {
  const answer = await post(
    `${origin}/webhooks/${source}`,
    { 'content-type': 'application/json', ...headers },
    body,
  );
  if (answer.status !== 200)
    throw new Error(`${source}: expected 200, received ${answer.status} ${answer.body}`);
}

async function until(databaseUrl: string, question: string): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const end = performance.now() + PATIENCE_MS;
    while (!(await client.query<{ left: boolean }>(question)).rows[0]!.left) {
      if (performance.now() > end) throw new Error(`the demo's events did not fail within ${PATIENCE_MS} ms`);
      await sleep(100);
    }
  } finally {
    await client.end();
  }
}
