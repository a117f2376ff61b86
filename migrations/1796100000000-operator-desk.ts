import type { MigrationInterface, QueryRunner } from 'typeorm';

/**
 * Tables of the operator's desk. None is written by a claim: counts are kept in memory and flushed in batches.
 *
 * - `webhook_audit`: what a person did, written with the deed.
 * - `webhook_issue`: a person's word on a group of dead rows that died of one error.
 * - `webhook_alert`: what `onAlert` was told, for the page.
 * - `webhook_relay`: the running instances, by heartbeat.
 * - `webhook_stat`: counts for each minute, source and metric.
 * - `webhook_duplicate`: how often an event came again, and when last.
 * - `webhook_secret_use`: when each secret verified last, by fingerprint.
 * - `webhook_rejection`: samples of requests that were not believed, explained.
 */
export class OperatorDesk1796100000000 implements MigrationInterface {
  readonly name = 'OperatorDesk1796100000000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_audit (
        id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        at       timestamptz NOT NULL DEFAULT now(),
        actor    text        NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 255),
        action   text        NOT NULL CHECK (octet_length(action) BETWEEN 1 AND 64),
        target   text        NOT NULL CHECK (octet_length(target) <= 600),
        reason   text        NOT NULL,
        detail   jsonb       NOT NULL DEFAULT '{}'
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_issue (
        fingerprint text        PRIMARY KEY,
        state       text        NOT NULL CHECK (state IN ('acknowledged', 'resolved')),
        actor       text        NOT NULL,
        note        text        NOT NULL DEFAULT '',
        changed_at  timestamptz NOT NULL DEFAULT now()
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_alert (
        id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        at      timestamptz NOT NULL DEFAULT now(),
        kind    text        NOT NULL,
        subject text        NOT NULL,
        facts   jsonb       NOT NULL
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_relay (
        id         uuid        PRIMARY KEY,
        host       text        NOT NULL,
        pid        integer     NOT NULL,
        node       text        NOT NULL,
        relays     boolean     NOT NULL,
        listens    boolean     NOT NULL,
        running    integer     NOT NULL,
        started_at timestamptz NOT NULL DEFAULT now(),
        seen_at    timestamptz NOT NULL DEFAULT now()
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_stat (
        minute timestamptz NOT NULL,
        source text        NOT NULL,
        metric text        NOT NULL,
        value  bigint      NOT NULL,
        PRIMARY KEY (minute, source, metric)
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_duplicate (
        source   text        NOT NULL,
        tenant   text        NOT NULL,
        event_id text        NOT NULL,
        count    integer     NOT NULL,
        last_at  timestamptz NOT NULL,
        PRIMARY KEY (source, tenant, event_id)
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_secret_use (
        source      text        NOT NULL,
        fingerprint text        NOT NULL,
        deliveries  bigint      NOT NULL,
        first_at    timestamptz NOT NULL,
        last_at     timestamptz NOT NULL,
        PRIMARY KEY (source, fingerprint)
      )`);
    // `headers` and `body` only where `rejections: { keep }` asks for them; the other columns hold no value of a header.
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_rejection (
        id           uuid        PRIMARY KEY,
        at           timestamptz NOT NULL,
        source       text        NOT NULL,
        reason       text        NOT NULL,
        detail       text        NOT NULL,
        diagnosis    text        NOT NULL,
        explanation  text        NOT NULL,
        bytes        integer     NOT NULL,
        content_type text        NOT NULL,
        header_names text[]      NOT NULL,
        method       text        NOT NULL,
        url          text,
        headers      jsonb,
        body         bytea,
        taken_at     timestamptz,
        taken_as     text
      )`);
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_rejection_kept ON webhook_rejection (source, id)
        WHERE body IS NOT NULL AND taken_at IS NULL`);
    await runner.query(
      `CREATE INDEX IF NOT EXISTS webhook_outbox_parked ON webhook_outbox (id) WHERE state = 'parked'`,
    );
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP INDEX IF EXISTS webhook_outbox_parked`);
    const tables = ['rejection', 'secret_use', 'duplicate', 'stat', 'relay', 'alert', 'issue', 'audit'];
    for (const table of tables) await runner.query(`DROP TABLE IF EXISTS webhook_${table}`);
  }
}
