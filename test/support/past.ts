import type { TestDatabase } from './database.js';

export interface Past {
  readonly source: string;
  readonly events: number;
  /** The youngest and the oldest, in days; events lie evenly between. */
  readonly days: readonly [number, number];
  /** Of the handler rows. @default 'done' */
  readonly state?: string;
}

/** Fills the tables with events of the past, each with a handler row and an effect, as arrival and settling would have left them. */
export async function makePast(
  database: Pick<TestDatabase, 'query'>,
  { source, events, days, state = 'done' }: Past,
): Promise<void> {
  const [young, old] = days;
  // One moment for all statements: ids are made of it, and the rows find each other by id.
  const moment = `to_timestamp(${Date.now() / 1_000})`;
  const at = `${moment} - interval '1 day' * (${young} + (${old - young}) * g / ${events}::float)`;
  const uuid = (salt: string) =>
    `(rpad(lpad(to_hex((extract(epoch FROM ${at}) * 1000)::bigint), 12, '0'), 12, '0') || '8000' || substr(md5('${source}${salt}' || g), 1, 16))::uuid`;
  await database.query(`
    INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body, received_at)
    SELECT '${source}', '', 'evt_' || g, ${uuid('c')}, 'invoice.paid', 'delivery', 'x', 1, '{"a":"b"}',
           convert_to(repeat(md5(g::text), 20), 'UTF8'), ${at} FROM generate_series(0, ${events - 1}) g`);
  for (const [kind, name, rowState] of [
    ['handler', `${source}/Past.run`, state],
    ['effect', 'mail', 'done'],
  ]) {
    const settled = rowState === 'pending' || rowState === 'parked' ? 'NULL' : at;
    await database.query(`
      INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id, state, settled_at, created_at, due_at, attempt)
      SELECT ${uuid(kind!)}, '${kind}', '${name}', '${source}', '', 'evt_' || g, '${rowState}', ${settled}, ${at}, ${at}, 1
        FROM generate_series(0, ${events - 1}) g`);
    await database.query(`
      INSERT INTO webhook_outbox_data (outbox_id, payload, result)
      SELECT ${uuid(kind!)}, ${kind === 'effect' ? `'{"a":1}'` : 'NULL'}, 'fine' FROM generate_series(0, ${events - 1}) g`);
  }
}

export async function counts(database: TestDatabase): Promise<Record<string, number>> {
  const [row] = await database.query<Record<string, number>>(`
    SELECT (SELECT count(*)::int FROM webhook_claim) AS claims,
           (SELECT count(*)::int FROM webhook_claim WHERE body IS NOT NULL) AS bodies,
           (SELECT count(*)::int FROM webhook_outbox) AS rows,
           (SELECT count(*)::int FROM webhook_outbox_data) AS data,
           (SELECT count(*)::int FROM webhook_outbox_data WHERE payload IS NOT NULL) AS payloads`);
  return row!;
}
