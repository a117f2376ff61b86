import type { MigrationInterface, QueryRunner } from 'typeorm';
import { DESK_TABLES, DESK_TABLE_NAMES } from './desk.tables.js';

/**
 * Tables of the inbox. Each statement may run twice. No CREATE INDEX CONCURRENTLY: it fails inside a transaction.
 *
 * - `webhook_claim`: the receipt. Written once; only erasure and retention touch it again.
 * - `webhook_outbox`: what is owed. Narrow, since the relay rewrites the whole row at each lease and settle. `rerun` is null unless a
 *   handler that was done for its event runs again: the state it came from, whether it may enqueue effects for the first time, and
 *   those that it was refused.
 * - `webhook_outbox_data`: the bytes of an outbox row, kept apart for that reason.
 * - `webhook_conflict`: deliveries that contradict what is known: other bytes under one id, known bytes under another.
 * - `webhook_lease`: names of jobs that one instance at a time may run.
 * - `webhook_pause`: sources, handlers and effects that no relay leases.
 * - `webhook_watermark`: for `skipStale`, the newest time a handler has seen of a key, which may name a person: only its hash is kept.
 * - `webhook_replay`: which events a replay has taken, so that it can be interrupted and run again.
 * - `webhook_refire`: effects that a person had done once more: each a generation of its own.
 * - those of the operator's desk: see `desk.tables`.
 */
export class WebhookInbox1796000000000 implements MigrationInterface {
  readonly name = 'WebhookInbox1796000000000';

  async up(runner: QueryRunner): Promise<void> {
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_claim (
        source      text        NOT NULL CHECK (octet_length(source) BETWEEN 1 AND 64),
        tenant      text        NOT NULL CHECK (octet_length(tenant) <= 255),
        event_id    text        NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 255),
        id          uuid        NOT NULL,
        received_at timestamptz NOT NULL DEFAULT now(),
        occurred_at timestamptz,
        erased_at   timestamptz,
        erased_by   text,
        erased_why  text,
        owed        smallint    NOT NULL CHECK (owed >= 0),
        event_type  text        NOT NULL CHECK (octet_length(event_type) <= 255),
        origin      text        NOT NULL CHECK (origin IN ('delivery', 'backfill')),
        verified_by text        NOT NULL,
        body_sha256 bytea,
        headers     jsonb       NOT NULL,
        body        bytea,
        PRIMARY KEY (source, tenant, event_id),
        CHECK (erased_at IS NULL OR body IS NULL)
      )`);
    await runner.query(`CREATE UNIQUE INDEX IF NOT EXISTS webhook_claim_id ON webhook_claim (id)`);
    await runner.query(
      `CREATE INDEX IF NOT EXISTS webhook_claim_received_at ON webhook_claim (source, received_at)`,
    );
    // Bodies that are emptied sooner than their claims leave this index, so that no night looks at them again.
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_claim_kept_body ON webhook_claim (source, received_at) WHERE body IS NOT NULL`);
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_claim_body ON webhook_claim (source, tenant, body_sha256)
        WHERE body_sha256 IS NOT NULL`);

    // PostgreSQL reads the stored tree of each CHECK anew for each statement, before it looks at a row: sixteen of them were 80 of the
    // 115 µs that an UPDATE of one row takes. One that calls a function costs half a µs more for each row, and 50 less for each statement.
    // plpgsql, as an SQL function would be written out into the tree. Unknown passes, as in any CHECK.
    await runner.query(`
      CREATE OR REPLACE FUNCTION webhook_outbox_is_sound(
        kind text, state text, name text, key text, order_key text, order_name text, event_id text, attempt integer,
        attempt_base integer, waits boolean, leased_by uuid, settled_at timestamptz
      ) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
      BEGIN
        RETURN kind IN ('handler', 'effect')
          AND state IN ('pending', 'done', 'superseded', 'dead', 'parked', 'erased')
          AND octet_length(name) BETWEEN 1 AND 255
          AND octet_length(key) <= 255
          AND octet_length(order_key) <= 255
          AND octet_length(order_name) <= 255
          AND attempt >= 0
          AND attempt_base BETWEEN 0 AND attempt
          AND (leased_by IS NULL OR (state = 'pending' AND NOT waits))
          AND (order_key IS NOT NULL OR NOT waits)
          AND (order_key IS NULL OR order_name IS NOT NULL)
          AND (settled_at IS NULL) = (state IN ('pending', 'parked'))
          AND (kind = 'effect' OR event_id IS NOT NULL)
          AND (state <> 'superseded' OR kind = 'handler');
      END $$`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_outbox (
        id           uuid        PRIMARY KEY,
        parent_id    uuid,
        due_at       timestamptz NOT NULL DEFAULT now(),
        created_at   timestamptz NOT NULL DEFAULT now(),
        settled_at   timestamptz,
        begun_at     timestamptz,
        first_leased_at timestamptz,
        leased_by    uuid,
        attempt      integer     NOT NULL DEFAULT 0,
        attempt_base integer     NOT NULL DEFAULT 0,
        lost         integer     NOT NULL DEFAULT 0,
        generation   smallint    NOT NULL DEFAULT 0,
        revived      boolean     NOT NULL DEFAULT false,
        reconciled   boolean     NOT NULL DEFAULT false,
        waits        boolean     NOT NULL DEFAULT false,
        alone        boolean     NOT NULL DEFAULT false,
        kind         text        NOT NULL,
        state        text        NOT NULL DEFAULT 'pending',
        name         text        NOT NULL,
        key          text        NOT NULL DEFAULT '',
        order_key    text,
        order_name   text,
        source       text,
        tenant       text,
        event_id     text,
        reason       text,
        error        text,
        rerun        jsonb,
        CONSTRAINT webhook_outbox_sound CHECK (webhook_outbox_is_sound(kind, state, name, key, order_key, order_name, event_id,
          attempt, attempt_base, waits, leased_by, settled_at))
      ) WITH (fillfactor = 80)`);
    // The lease: one range scan for each name that a process knows, in the order of due times.
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_due ON webhook_outbox (name, due_at)
        WHERE state = 'pending' AND NOT waits AND NOT alone`);
    // Rows with an attempt that never ended: a lane of their own, one at a time in each process.
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_alone ON webhook_outbox (due_at)
        WHERE state = 'pending' AND NOT waits AND alone`);
    // Order per key: at most one row of a key is in the index above; the others wait their turn out of its sight, so that a hot
    // key's backlog costs the lease nothing. The index makes the rule PostgreSQL's own. `order_name` is the first name of the handler
    // or effect, so that a renaming does not make two lines of one.
    await runner.query(`
      CREATE UNIQUE INDEX IF NOT EXISTS webhook_outbox_turn ON webhook_outbox (order_name, order_key)
        WHERE state = 'pending' AND NOT waits AND order_key IS NOT NULL`);
    // A waiting row's due_at is its place in the line: its arrival, or the time before which it must not run.
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_waiting ON webhook_outbox (order_name, order_key, due_at, id)
        WHERE state = 'pending' AND waits`);
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_blocking ON webhook_outbox (order_name, order_key)
        WHERE state IN ('dead', 'parked') AND order_key IS NOT NULL`);
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_event ON webhook_outbox (source, tenant, event_id)
        WHERE event_id IS NOT NULL`);
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_dead ON webhook_outbox (settled_at) WHERE state = 'dead'`);
    await runner.query(
      `CREATE INDEX IF NOT EXISTS webhook_outbox_parked ON webhook_outbox (id) WHERE state = 'parked'`,
    );
    // Effects that belong to no event are pruned by the time they were settled.
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_settled ON webhook_outbox (settled_at)
        WHERE event_id IS NULL AND settled_at IS NOT NULL`);
    // Effects enqueued outside a run: a key is unique for each effect, by the name that instances of before and after a renaming share.
    await runner.query(`
      CREATE UNIQUE INDEX IF NOT EXISTS webhook_outbox_key ON webhook_outbox (order_name, key)
        WHERE parent_id IS NULL AND kind = 'effect' AND key <> ''`);

    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_outbox_data (
        outbox_id uuid PRIMARY KEY,
        payload   bytea,
        result    text,
        other_payload_sha256 bytea
      )`);
    // Only effects have payloads. Ids begin with the time of arrival, so that the oldest come first.
    await runner.query(`
      CREATE INDEX IF NOT EXISTS webhook_outbox_data_payload ON webhook_outbox_data (outbox_id) WHERE payload IS NOT NULL`);

    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_conflict (
        source      text        NOT NULL,
        tenant      text        NOT NULL,
        event_id    text        NOT NULL,
        kind        text        NOT NULL CHECK (kind IN ('other-bytes', 'suspected-replay')),
        body_sha256 bytea       NOT NULL,
        deliveries  integer     NOT NULL DEFAULT 1,
        first_at    timestamptz NOT NULL DEFAULT now(),
        last_at     timestamptz NOT NULL DEFAULT now(),
        PRIMARY KEY (source, tenant, event_id, kind, body_sha256)
      )`);

    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_lease (
        name  text        PRIMARY KEY,
        owner uuid        NOT NULL,
        until timestamptz NOT NULL
      )`);

    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_pause (
        kind      text        NOT NULL CHECK (kind IN ('source', 'handler', 'effect')),
        name      text        NOT NULL,
        paused_at timestamptz NOT NULL DEFAULT now(),
        paused_by text        NOT NULL,
        reason    text        NOT NULL,
        PRIMARY KEY (kind, name)
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_watermark (
        handler text        NOT NULL,
        source  text        NOT NULL,
        tenant  text        NOT NULL,
        key_sha256 bytea    NOT NULL CHECK (octet_length(key_sha256) = 32),
        at      timestamptz NOT NULL,
        PRIMARY KEY (handler, source, tenant, key_sha256)
      )`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_replay (
        replay_id   uuid        NOT NULL,
        claim_id    uuid        NOT NULL,
        replayed_at timestamptz NOT NULL DEFAULT now(),
        replayed_by text        NOT NULL,
        reason      text        NOT NULL,
        PRIMARY KEY (replay_id, claim_id)
      )`);
    // It goes with its claim.
    await runner.query(`CREATE INDEX IF NOT EXISTS webhook_replay_claim ON webhook_replay (claim_id)`);
    await runner.query(`
      CREATE TABLE IF NOT EXISTS webhook_refire (
        outbox_id  uuid     NOT NULL,
        effect     text     NOT NULL,
        generation smallint NOT NULL,
        replay_id  uuid     NOT NULL,
        PRIMARY KEY (outbox_id, effect, generation)
      )`);

    for (const statement of DESK_TABLES) await runner.query(statement);

    // A queue table is mostly dead rows between vacuums; the defaults (20 % of the table) let a lease scan wade through them.
    for (const table of ['webhook_outbox', 'webhook_outbox_data']) {
      await runner.query(`
        ALTER TABLE ${table} SET (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000,
          autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 1)`);
    }
    await runner.query(`
      ALTER TABLE webhook_claim SET (autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.02)`);

    await runner.query(`
      CREATE OR REPLACE VIEW webhook_event AS
      SELECT c.source, c.tenant, c.event_id, c.id, c.event_type, c.occurred_at, c.received_at, c.origin,
             c.verified_by, c.owed,
             CASE WHEN c.erased_at IS NOT NULL THEN 'erased'
                  WHEN r.dead > 0 THEN 'dead'
                  WHEN r.pending > 0 OR r.handlers < c.owed THEN 'pending'
                  WHEN r.done > 0 THEN 'processed'
                  WHEN r.superseded > 0 THEN 'superseded'
                  ELSE 'skipped' END AS state,
             CASE WHEN c.erased_at IS NOT NULL THEN 'erased by ' || c.erased_by || ': ' || c.erased_why
                  WHEN r.dead > 0 THEN r.dead_reasons
                  WHEN c.owed = 0 AND r.handlers = 0 THEN 'no handler matched'
                  ELSE r.results END AS outcome,
             CASE WHEN r.pending = 0 AND r.handlers >= c.owed THEN r.processed_at END AS processed_at,
             r.effects_pending, r.effects_done, r.effects_dead, r.effects_parked
        FROM webhook_claim c
        CROSS JOIN LATERAL (
          SELECT count(*) FILTER (WHERE o.kind = 'handler')                          AS handlers,
                 count(*) FILTER (WHERE o.kind = 'handler' AND o.state = 'pending')    AS pending,
                 count(*) FILTER (WHERE o.kind = 'handler' AND o.state = 'dead')       AS dead,
                 count(*) FILTER (WHERE o.kind = 'handler' AND o.state = 'done')       AS done,
                 count(*) FILTER (WHERE o.kind = 'handler' AND o.state = 'superseded') AS superseded,
                 count(*) FILTER (WHERE o.kind = 'effect' AND o.state = 'pending')     AS effects_pending,
                 count(*) FILTER (WHERE o.kind = 'effect' AND o.state = 'done')        AS effects_done,
                 count(*) FILTER (WHERE o.kind = 'effect' AND o.state = 'dead')        AS effects_dead,
                 count(*) FILTER (WHERE o.state = 'parked')                          AS effects_parked,
                 max(o.settled_at) FILTER (WHERE o.kind = 'handler')                   AS processed_at,
                 string_agg(o.name || ': ' || o.reason, '; ' ORDER BY o.name)
                   FILTER (WHERE o.kind = 'handler' AND o.state = 'dead')              AS dead_reasons,
                 string_agg(o.name || ': ' || d.result, '; ' ORDER BY o.name)
                   FILTER (WHERE o.kind = 'handler' AND d.result IS NOT NULL)          AS results
            FROM webhook_outbox o LEFT JOIN webhook_outbox_data d ON d.outbox_id = o.id
           WHERE o.source = c.source AND o.tenant = c.tenant AND o.event_id = c.event_id
             AND o.event_id IS NOT NULL
        ) r`);
  }

  async down(runner: QueryRunner): Promise<void> {
    await runner.query(`DROP VIEW IF EXISTS webhook_event`);
    for (const table of [...DESK_TABLE_NAMES, ...TABLES]) {
      await runner.query(`DROP TABLE IF EXISTS webhook_${table}`);
    }
    await runner.query(`DROP FUNCTION IF EXISTS webhook_outbox_is_sound`);
  }
}

const TABLES = [
  'refire',
  'replay',
  'watermark',
  'pause',
  'lease',
  'conflict',
  'outbox_data',
  'outbox',
  'claim',
];
