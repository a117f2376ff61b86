import { index, table } from './own.objects.js';

/**
 * Tables of the operator's desk, made by the same migration as those of the inbox. None is written by a claim: counts are kept in
 * memory and flushed in batches.
 *
 * - `webhook_audit`: what a person did, written before the deed; its end is added after it.
 * - `webhook_issue`: a person's word on a group of dead rows that died of one error.
 * - `webhook_alert`: what `onAlert` was told, for the page.
 * - `webhook_relay`: the running instances, by heartbeat; `lock_key` is the advisory lock by which others see that one lives.
 * - `webhook_stat`: counts for each minute, source and metric; of all sources together, under the source ''.
 * - `webhook_duplicate`: how often an event came again, and when last.
 * - `webhook_secret_use`: when each secret verified last, by fingerprint.
 * - `webhook_rejection`: samples of requests that were not believed, explained. `headers` and `body` only where
 *   `rejections: { keep }` asks for them; the other columns hold no value of a header.
 */
export const DESK_TABLES = [
  table(
    'webhook_audit',
    `(
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT now(),
    actor    text        NOT NULL CHECK (octet_length(actor) BETWEEN 1 AND 255),
    action   text        NOT NULL CHECK (octet_length(action) BETWEEN 1 AND 64),
    target   text        NOT NULL CHECK (octet_length(target) <= 600),
    reason   text        NOT NULL,
    detail   jsonb       NOT NULL DEFAULT '{}',
    outcome  jsonb
  )`,
  ),
  table(
    'webhook_issue',
    `(
    fingerprint text        PRIMARY KEY,
    state       text        NOT NULL CHECK (state IN ('acknowledged', 'resolved')),
    actor       text        NOT NULL,
    note        text        NOT NULL DEFAULT '',
    changed_at  timestamptz NOT NULL DEFAULT now()
  )`,
  ),
  table(
    'webhook_alert',
    `(
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT now(),
    kind    text        NOT NULL,
    subject text        NOT NULL,
    facts   jsonb       NOT NULL
  )`,
  ),
  table(
    'webhook_relay',
    `(
    id         uuid        PRIMARY KEY,
    host       text        NOT NULL,
    pid        integer     NOT NULL,
    node       text        NOT NULL,
    relays     boolean     NOT NULL,
    listens    boolean     NOT NULL,
    running    integer     NOT NULL,
    names      text[]      NOT NULL,
    sources    text[]      NOT NULL DEFAULT '{}',
    build      text,
    lock_key   bigint,
    registered_at timestamptz,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
  )`,
  ),
  table(
    'webhook_stat',
    `(
    minute timestamptz NOT NULL,
    source text        NOT NULL,
    metric text        NOT NULL,
    value  bigint      NOT NULL,
    PRIMARY KEY (source, minute, metric)
  )`,
  ),
  // For pruning: rows come in the order of their minutes.
  index('webhook_stat_minute', `webhook_stat USING brin (minute)`),
  table(
    'webhook_duplicate',
    `(
    source   text        NOT NULL,
    tenant   text        NOT NULL,
    event_id text        NOT NULL,
    count    integer     NOT NULL,
    last_at  timestamptz NOT NULL,
    PRIMARY KEY (source, tenant, event_id)
  )`,
  ),
  table(
    'webhook_secret_use',
    `(
    source      text        NOT NULL,
    fingerprint text        NOT NULL,
    deliveries  bigint      NOT NULL,
    first_at    timestamptz NOT NULL,
    last_at     timestamptz NOT NULL,
    PRIMARY KEY (source, fingerprint)
  )`,
  ),
  table(
    'webhook_rejection',
    `(
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
  )`,
  ),
  index(
    'webhook_rejection_kept',
    `webhook_rejection (source, id) WHERE body IS NOT NULL AND taken_at IS NULL`,
  ),
];
