import { func, index, table, uniqueIndex } from './own.objects.js';

/**
 * Tables of the inbox.
 *
 * - `webhook_claim`: the receipt. Written once; only erasure and retention touch it again.
 * - `webhook_outbox`: what is owed. Narrow, since the relay rewrites the whole row at each lease and settle. A lease changes no column
 *   that an index has or asks for, so that it writes to no index (HOT). `due_at` says since when a row may run, and `lease_until` how long
 *   it is held. `rerun` is set where a handler that was done for its event runs again: the state it came from, whether it may enqueue
 *   effects for the first time, and the effects that it was refused.
 * - `webhook_outbox_data`: the bytes of an outbox row, kept apart for that reason.
 * - `webhook_attempt`: attempts that have ended, but for a success that its row still holds. A row is added and not changed again.
 * - `webhook_payload_value`: values of payloads by which a source lets its events be found.
 * - `webhook_conflict`: deliveries that contradict what is known: other bytes under one id, known bytes under another.
 * - `webhook_lease`: names of jobs that one instance at a time may run.
 * - `webhook_pause`: sources, handlers and effects that no relay leases.
 * - `webhook_watermark`: for `skipStale`, the newest time a handler has seen of a key, which may name a person: only its hash is kept.
 * - `webhook_replay`: which events a replay has taken, so that it can be interrupted and run again.
 * - `webhook_refire`: effects that a person had done once more: each a generation of its own.
 * - `webhook_destination`: what all instances know of a destination of effects: its rate, and whether it is called at all.
 * - `webhook_consumed`: effects that a consumer of an engine has done, in the consumer's own database.
 * - those of the operator's desk: see `desk.tables`.
 */
export const INBOX_TABLES = [
  table(
    'webhook_claim',
    `(
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
    sealed_by   text,
    PRIMARY KEY (source, tenant, event_id),
    CHECK (erased_at IS NULL OR body IS NULL)
  )`,
  ),
  uniqueIndex('webhook_claim_id', `webhook_claim (id)`),
  index('webhook_claim_received_at', `webhook_claim (source, received_at)`),
  index('webhook_claim_body', `webhook_claim (source, tenant, body_sha256) WHERE body_sha256 IS NOT NULL`),
  // PostgreSQL reads the stored tree of each CHECK anew for each statement, before it looks at a row: sixteen of them were 80 of the
  // 115 µs that an UPDATE of one row takes. One that calls a function costs half a µs more for each row, and 50 less for each statement.
  // plpgsql, as an SQL function would be written out into the tree. Unknown passes, as in any CHECK.
  func(
    'webhook_outbox_is_sound',
    `(
    kind text, state text, name text, key text, order_key text, order_name text, event_id text, attempt integer,
    attempt_base integer, waits boolean, leased_by uuid, lease_until timestamptz, settled_at timestamptz
  ) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
  BEGIN
    RETURN kind IN ('handler', 'effect')
      AND state IN ('pending', 'done', 'superseded', 'dead', 'parked', 'erased', 'cancelled', 'handed')
      AND pg_catalog.octet_length(name) BETWEEN 1 AND 255
      AND pg_catalog.octet_length(key) <= 255
      AND pg_catalog.octet_length(order_key) <= 255
      AND pg_catalog.octet_length(order_name) <= 255
      AND attempt >= 0
      AND attempt_base BETWEEN 0 AND attempt
      AND (leased_by IS NULL OR (state = 'pending' AND NOT waits AND lease_until IS NOT NULL))
      AND (order_key IS NOT NULL OR NOT waits)
      AND (order_key IS NULL OR order_name IS NOT NULL)
      AND (settled_at IS NULL) = (state IN ('pending', 'parked', 'handed'))
      AND (kind = 'effect' OR (event_id IS NOT NULL AND state NOT IN ('cancelled', 'handed')))
      AND (state <> 'superseded' OR kind = 'handler');
  END $$`,
  ),
  table(
    'webhook_outbox',
    (schema) => `(
    id           uuid        PRIMARY KEY,
    parent_id    uuid,
    due_at       timestamptz NOT NULL DEFAULT now(),
    created_at   timestamptz NOT NULL DEFAULT now(),
    settled_at   timestamptz,
    begun_at     timestamptz,
    first_leased_at timestamptz,
    leased_at    timestamptz,
    leased_by    uuid,
    lease_until  timestamptz,
    ran_by       uuid,
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
    place        text,
    rerun        jsonb,
    trace        text,
    CONSTRAINT webhook_outbox_sound CHECK (${schema}.webhook_outbox_is_sound(kind, state, name, key, order_key, order_name, event_id,
      attempt, attempt_base, waits, leased_by, lease_until, settled_at))
  ) WITH (fillfactor = 60)`,
  ),
  // The lease: one range scan for each name that a process knows, in the order of due times.
  index(
    'webhook_outbox_due',
    `webhook_outbox (name, due_at) WHERE state = 'pending' AND NOT waits AND NOT alone`,
  ),
  // Rows with an attempt that never ended: a lane of their own, one at a time in each process.
  index('webhook_outbox_alone', `webhook_outbox (due_at) WHERE state = 'pending' AND NOT waits AND alone`),
  // Order per key: at most one row of a key is in the index above; the others wait their turn out of its sight, so that a hot
  // key's backlog costs the lease nothing. The index makes the rule PostgreSQL's own. `order_name` is the first name of the handler
  // or effect, so that a renaming does not make two lines of one.
  uniqueIndex(
    'webhook_outbox_turn',
    `webhook_outbox (order_name, order_key) WHERE state = 'pending' AND NOT waits AND order_key IS NOT NULL`,
  ),
  // A waiting row's due_at is its place in the line: its arrival, or the time before which it must not run.
  index(
    'webhook_outbox_waiting',
    `webhook_outbox (order_name, order_key, due_at, id) WHERE state = 'pending' AND waits`,
  ),
  index(
    'webhook_outbox_blocking',
    `webhook_outbox (order_name, order_key) WHERE state IN ('dead', 'parked') AND order_key IS NOT NULL`,
  ),
  // The rows of an event, in place of an index that each insert and each settle would write to: an id begins as its claim's does, but
  // for the version. The key is compared too, since claims of one moment may begin alike. A function with settings of its own, as the
  // planner takes a range of unknown ends for a two-hundredth of the table. It has its owner's rights, as the views that use it have,
  // and tells ids alone.
  func(
    'webhook_rows_of',
    (
      schema,
    ) => `(of_source text, of_tenant text, of_event_id text) RETURNS uuid[] LANGUAGE plpgsql STABLE PARALLEL SAFE COST 1000
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_bitmapscan = off
    SET plan_cache_mode = force_generic_plan SET jit = off AS $$
  DECLARE
    start text;
  BEGIN
    SELECT overlay(left(id::text, 18) PLACING '8' FROM 15) INTO start FROM ${schema}.webhook_claim
     WHERE source = of_source AND tenant = of_tenant AND event_id = of_event_id;
    RETURN ARRAY(
      SELECT id FROM ${schema}.webhook_outbox
       WHERE id BETWEEN (start || '-0000-000000000000')::uuid AND (start || '-ffff-ffffffffffff')::uuid
         AND source = of_source AND tenant = of_tenant AND event_id = of_event_id);
  END $$`,
  ),
  index('webhook_outbox_handed', `webhook_outbox (due_at) WHERE state = 'handed'`),
  index('webhook_outbox_dead', `webhook_outbox (settled_at) WHERE state = 'dead'`),
  index('webhook_outbox_parked', `webhook_outbox (id) WHERE state = 'parked'`),
  // Effects that belong to no event are pruned by the time they were settled.
  index(
    'webhook_outbox_settled',
    `webhook_outbox (settled_at) WHERE event_id IS NULL AND settled_at IS NOT NULL`,
  ),
  // Effects enqueued outside a run: a key is unique for each effect, by the name that instances of before and after a renaming share.
  uniqueIndex(
    'webhook_outbox_key',
    `webhook_outbox (order_name, key) WHERE parent_id IS NULL AND kind = 'effect' AND key <> ''`,
  ),
  table(
    'webhook_outbox_data',
    `(
    outbox_id uuid PRIMARY KEY,
    payload   bytea,
    result    text,
    other_payload_sha256 bytea,
    sealed_by text
  )`,
  ),
  // Only effects have payloads. Ids begin with the time of arrival, so that the oldest come first.
  index('webhook_outbox_data_payload', `webhook_outbox_data (outbox_id) WHERE payload IS NOT NULL`),
  // An attempt may end twice: as lost, and then by its late end. Outcomes have no CHECK, so that a new one needs no migration.
  table(
    'webhook_attempt',
    `(
    outbox_id uuid        NOT NULL,
    attempt   integer     NOT NULL,
    ended_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    begun_at  timestamptz,
    outcome   text        NOT NULL CHECK (octet_length(outcome) BETWEEN 1 AND 32),
    reason    text,
    error     text,
    place     text,
    instance  uuid,
    host      text,
    build     text,
    ended_by  text,
    why       text,
    PRIMARY KEY (outbox_id, attempt, ended_at)
  )`,
  ),
  table(
    'webhook_payload_value',
    `(
    source   text NOT NULL,
    path     text NOT NULL CHECK (octet_length(path) <= 255),
    value    text NOT NULL CHECK (octet_length(value) <= 255),
    claim_id uuid NOT NULL,
    PRIMARY KEY (source, path, value, claim_id)
  )`,
  ),
  index('webhook_payload_value_claim', `webhook_payload_value (claim_id)`),
  table(
    'webhook_conflict',
    `(
    source      text        NOT NULL,
    tenant      text        NOT NULL,
    event_id    text        NOT NULL,
    kind        text        NOT NULL CHECK (kind IN ('other-bytes', 'suspected-replay')),
    body_sha256 bytea       NOT NULL,
    deliveries  integer     NOT NULL DEFAULT 1,
    first_at    timestamptz NOT NULL DEFAULT now(),
    last_at     timestamptz NOT NULL DEFAULT now(),
    headers     jsonb,
    body        bytea,
    sealed_by   text,
    PRIMARY KEY (source, tenant, event_id, kind, body_sha256)
  )`,
  ),
  table(
    'webhook_lease',
    `(
    name  text        PRIMARY KEY,
    owner uuid        NOT NULL,
    until timestamptz NOT NULL
  )`,
  ),
  table(
    'webhook_pause',
    `(
    kind      text        NOT NULL CHECK (kind IN ('source', 'handler', 'effect')),
    name      text        NOT NULL,
    paused_at timestamptz NOT NULL DEFAULT now(),
    paused_by text        NOT NULL,
    reason    text        NOT NULL,
    PRIMARY KEY (kind, name)
  )`,
  ),
  table(
    'webhook_watermark',
    `(
    handler text        NOT NULL,
    source  text        NOT NULL,
    tenant  text        NOT NULL,
    key_sha256 bytea    NOT NULL CHECK (octet_length(key_sha256) = 32),
    at      timestamptz NOT NULL,
    PRIMARY KEY (handler, source, tenant, key_sha256)
  )`,
  ),
  table(
    'webhook_replay',
    `(
    replay_id   uuid        NOT NULL,
    claim_id    uuid        NOT NULL,
    replayed_at timestamptz NOT NULL DEFAULT now(),
    replayed_by text        NOT NULL,
    reason      text        NOT NULL,
    PRIMARY KEY (replay_id, claim_id)
  )`,
  ),
  // It goes with its claim.
  index('webhook_replay_claim', `webhook_replay (claim_id)`),
  table(
    'webhook_refire',
    `(
    outbox_id  uuid     NOT NULL,
    effect     text     NOT NULL,
    generation smallint NOT NULL,
    replay_id  uuid     NOT NULL,
    PRIMARY KEY (outbox_id, effect, generation)
  )`,
  ),
  // Rewritten often and never in its key: with room on the page, an update writes no index.
  table(
    'webhook_destination',
    `(
    name        text        PRIMARY KEY CHECK (octet_length(name) BETWEEN 1 AND 512),
    state       text        NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open')),
    opened_at   timestamptz,
    not_before  timestamptz,
    failures    integer     NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failed_at   timestamptz,
    error       text,
    probe_id    uuid,
    probe_until timestamptz,
    tokens      float8,
    refilled_at timestamptz,
    CHECK (state = 'closed' OR opened_at IS NOT NULL)
  ) WITH (fillfactor = 50)`,
  ),
  table(
    'webhook_consumed',
    `(
    outbox_id   uuid        PRIMARY KEY,
    effect      text        NOT NULL,
    attempt     integer     NOT NULL DEFAULT 1,
    consumed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    result      text,
    reported_at timestamptz
  )`,
  ),
];
