import { Client } from 'pg';

/** Settled events with random ids, as months of receiving would leave them. */
export async function fillSettled(databaseUrl: string, count: number): Promise<void> {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  const STEP = 100_000;
  for (let at = 0; at < count; at += STEP) {
    await client.query(
      `WITH event AS (
         SELECT md5(g::text) AS event_id, md5('c' || g)::uuid AS id, (overlay(left(md5('c' || g), 16) PLACING '8' FROM 13) || right(md5('o' || g), 16))::uuid AS row_id,
                now() - (g % 2592000) * interval '1 s' AS at
           FROM generate_series($1::int, $2::int) g
       ), claim AS (
         INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body, received_at)
         SELECT 'bench', '', event_id, id, 'invoice.paid', 'delivery', 'x', 1, '{}', convert_to(repeat(event_id, 6), 'UTF8'), at FROM event)
       INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, state, settled_at, created_at, due_at, attempt)
       SELECT row_id, 'handler', 'bench/Handlers.handle', 'bench', '', event_id, 'done', at, at, at, 1 FROM event`,
      [at, Math.min(at + STEP, count) - 1],
    );
    console.log(`filled ${Math.min(at + STEP, count)} of ${count}`);
  }
  await client.query('VACUUM ANALYZE');
  await client.end();
}
