/** One replacement in a source file; the text must be there exactly once. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** A fault to plant, and the test that must catch it. */
export interface Mutant {
  readonly name: string;
  readonly edits: readonly Edit[];
  readonly spec: string;
  /** A part of the test's full name. */
  readonly test: string;
}

const edit = (file: string, find: string, replace: string): Edit => ({ file, find, replace });

const DISPATCH_FIRST = `await this.dispatcher
        .dispatch({ source, request, body: new BodyReader(request.rawBody), tenant: '', verifiedBy: '', stale: false, skewMs: 0 })
        .catch(() => undefined);`;

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'a lease is taken from the process that holds it',
    edits: [
      edit(
        'src/storage/outbox.sql.ts',
        'AND due_at <= now() AND ${FREE}\n        ORDER BY',
        'AND due_at <= now()\n        ORDER BY',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'is held by one process only',
  },
  {
    name: 'a lease in the lane is taken though it was renewed',
    edits: [
      edit(
        'src/storage/outbox.sql.ts',
        'AND o.alone AND o.due_at <= now() AND (o.leased_by IS NULL OR o.lease_until <= now())',
        'AND o.alone AND o.due_at <= now()',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'is not run twice: a renewed lease outlives the place in the line',
  },
  {
    name: 'a takeover leaves rows of the lane to the end of their lease',
    edits: [
      edit(
        'src/storage/postgres/takeover.store.ts',
        'SET lease_until = clock_timestamp(), due_at = least(o.due_at, clock_timestamp())',
        'SET lease_until = clock_timestamp()',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'and the rows beside it go on at once when the instance that holds them is gone',
  },
  {
    name: 'rows of another event of the same moment are taken for the event’s own',
    edits: [
      edit(
        'migrations/inbox.tables.ts',
        '\n         AND source = of_source AND tenant = of_tenant AND event_id = of_event_id);',
        ');',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'of the rows of an event is by their ids',
  },
  {
    name: 'no SKIP LOCKED in the lease',
    edits: [
      edit(
        'src/storage/outbox.sql.ts',
        'ORDER BY due_at LIMIT n.max_rows\n          FOR UPDATE SKIP LOCKED',
        'ORDER BY due_at LIMIT n.max_rows\n          FOR UPDATE',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'passes over a row that is locked',
  },
  {
    name: 'no fence',
    edits: [
      edit(
        'src/storage/pending.sql.ts',
        "`o.id = $1 AND o.attempt = $2 AND o.leased_by = $3 AND o.state = 'pending'`;",
        '`o.id = $1 AND $2::int IS NOT NULL AND $3::uuid IS NOT NULL`;',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'lets nothing through that a process does whose lease has ended',
  },
  {
    name: 'a fence of id and attempt alone, without holder and state',
    edits: [
      edit(
        'src/storage/pending.sql.ts',
        "`o.id = $1 AND o.attempt = $2 AND o.leased_by = $3 AND o.state = 'pending'`;",
        '`o.id = $1 AND o.attempt = $2 AND $3::uuid IS NOT NULL`;',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'refuses a second settle of one attempt',
  },
  {
    name: 'a settle that the fence refused is taken for one that went through',
    edits: [
      edit('src/outbox/runs/run.transaction.ts', 'if (!settled) throw new LeaseLost();', ''),
      edit(
        'src/storage/settle.sql.ts',
        "CASE count(*) WHEN 1 THEN 1 ELSE ('${REFUSED}' || count(*))::int END",
        'count(*)',
      ),
    ],
    spec: 'test/integration/relay.spec.ts',
    test: 'a handler that ends after its lease was taken commits nothing',
  },
  {
    name: 'a COMMIT whose tag is not looked at',
    edits: [
      edit(
        'src/storage/postgres/transaction-end.ts',
        "if (answer?.command !== 'COMMIT') {",
        "if (answer?.command === 'nothing') {",
      ),
    ],
    spec: 'test/integration/commit-in-doubt.spec.ts',
    test: 'with ROLLBACK, since a query failed and nobody said so',
  },
  {
    name: 'the attempt is not counted at the lease',
    edits: [
      edit(
        'src/storage/outbox.sql.ts',
        'SET attempt = o.attempt + CASE WHEN due.exhausted OR due.moves THEN 0 ELSE 1 END,',
        'SET attempt = o.attempt,',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'R19 counts the attempt before the run',
  },
  {
    name: 'the clock of the process decides what is due',
    edits: [
      edit(
        'src/storage/outbox.store.ts',
        '(manager, leaseDue(limit), [',
        "(manager, leaseDue(limit).replace('due_at <= now() AND', `due_at <= to_timestamp(${Date.now() / 1000}) AND`), [",
      ),
    ],
    spec: 'test/integration/relay.spec.ts',
    test: 'case 23 the database’s clock alone decides a process whose clock is',
  },
  {
    name: 'rows that a smaller limit keeps out take places from other rows of the share',
    edits: [
      edit(
        'src/storage/outbox.sql.ts',
        'SELECT *, place + least(0, min(share_limit - place)',
        'SELECT *, place + least(0, 0 * min(share_limit - place)',
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'never gives a share more than its limits',
  },
  {
    name: 'a cut network is noticed by the server after minutes',
    edits: [edit('src/storage/postgres/takeover.store.ts', '`SET tcp_user_timeout = 2000`,', '')],
    spec: 'test/integration/predicates.takeover.spec.ts',
    test: 'is held by a session that the server gives up',
  },
  {
    name: 'keepalives of the lock session are the system’s',
    edits: [edit('src/storage/postgres/takeover.store.ts', '`SET tcp_keepalives_idle = 1`,', '')],
    spec: 'test/integration/predicates.takeover.spec.ts',
    test: 'is held by a session that the server gives up',
  },
  {
    name: 'the lock session waits for rows',
    edits: [edit('src/storage/postgres/takeover.store.ts', '`SET lock_timeout = 200`,', '')],
    spec: 'test/integration/predicates.takeover.spec.ts',
    test: 'is held by a session that the server gives up',
  },
  {
    name: 'two looks at one lock hinder each other',
    edits: [
      edit(
        'src/storage/postgres/takeover.store.ts',
        'pg_try_advisory_xact_lock_shared(lock_key)',
        'pg_try_advisory_xact_lock(lock_key)',
      ),
    ],
    spec: 'test/integration/predicates.takeover.spec.ts',
    test: 'is seen as free by several instances at once',
  },
  {
    name: 'a lost lock lets runs go on from when it is noticed',
    edits: [
      edit(
        'src/outbox/takeover/lock-watch.ts',
        'Math.min(UNLOCKED_MS, heardAt + SILENT_MS + UNLOCKED_MS - now)',
        'Math.min(UNLOCKED_MS, heardAt + 60_000 - now)',
      ),
    ],
    spec: 'test/unit/lock-watch.spec.ts',
    test: 'that notices it',
  },
  {
    name: 'select, then insert',
    edits: [
      edit(
        'src/storage/new-claim.ts',
        'VALUES ($1::text, $2::text, $3::text, $4::uuid, $5::text, $6::timestamptz, $7::text, $8::text, 1, NULL, $9::jsonb, $10::bytea)${WON}',
        'SELECT $1::text, $2::text, $3::text, $4::uuid, $5::text, $6::timestamptz, $7::text, $8::text, 1, NULL, $9::jsonb, $10::bytea\n' +
          '     WHERE NOT EXISTS (SELECT FROM webhook_claim w WHERE w.source = $1 AND w.tenant = $2 AND w.event_id = $3)\n' +
          '    RETURNING id, source, tenant, event_id, received_at',
      ),
    ],
    spec: 'test/integration/claim.spec.ts',
    test: 'one that waits for another transaction wins when that rolls back, and does not when it commits',
  },
  {
    name: 'the acknowledgement comes after the processing',
    edits: [
      edit(
        'src/inbox/runs/delivery-runs.ts',
        "if (source.retries === 'own' && !this.registry.hasInline(source.name)) return undefined;",
        '',
      ),
      edit(
        'src/inbox/runs/delivery-runs.ts',
        "if (source.retries === 'own') return this.runInline(source, event, handlers, check);",
        '',
      ),
    ],
    spec: 'test/e2e/own-retries.spec.ts',
    test: 'R20 the answer comes before the handler ends',
  },
  {
    name: 'dedupe before verification',
    edits: [
      edit(
        'src/inbox/inbox.ts',
        'verified = await this.verifier.verify(source, request);',
        `${DISPATCH_FIRST}
      verified = await this.verifier.verify(source, request);`,
      ),
      edit(
        'src/inbox/inbox.ts',
        'return await during(request, this.verifier.verify(source, request));',
        `${DISPATCH_FIRST}
      return await during(request, this.verifier.verify(source, request));`,
      ),
      edit(
        'src/inbox/inbox.ts',
        "import { Rejections } from './rejections.js';",
        "import { Rejections } from './rejections.js';\nimport { BodyReader } from '../core/body.js';",
      ),
    ],
    spec: 'test/e2e/verification.spec.ts',
    test: 'R09 an unauthenticated caller cannot put ids into the table',
  },
  {
    name: 'parsing before verification',
    edits: [
      edit(
        'src/http/signature.guard.ts',
        'const verified = await this.inbox.verify(',
        'JSON.parse(received.rawBody.toString());\n    const verified = await this.inbox.verify(',
      ),
      edit(
        'src/http/direct/direct.route.ts',
        'return await this.inbox.serve(',
        'JSON.parse(received.rawBody.toString());\n      return await this.inbox.serve(',
      ),
    ],
    spec: 'test/e2e/verification.spec.ts',
    test: 'does not parse before it verifies',
  },
  {
    name: 'no claim: each delivery is an event of its own',
    edits: [
      edit(
        'src/storage/new-claim.ts',
        'SELECT source, tenant, event_id, id, event_type, occurred_at',
        'SELECT source, tenant, event_id || id::text, id, event_type, occurred_at',
      ),
    ],
    spec: 'test/e2e/dedupe.spec.ts',
    test: 'R02 a known event is answered 200 at once, and no work is owed for it',
  },
  {
    name: 'the claim is kept as handled after a failure',
    edits: [
      edit(
        'src/outbox/runs/handler.runner.ts',
        'if (outcome !== undefined) return this.finish(row, outcome, undefined);',
        "await this.transactions.run(row.name, timeoutMs, (one) => one.settle(row, undefined));\n      return this.ended(row, 'done', undefined);",
      ),
    ],
    spec: 'test/integration/claim.spec.ts',
    test: 'case 2 R13 R35 a first delivery that fails leaves nothing that stops the second',
  },
  {
    name: 're-serialised bytes',
    edits: [
      edit(
        'src/http/webhook.requests.ts',
        'return { ...head, rawBody: bytes,',
        'return { ...head, rawBody: Buffer.from(JSON.stringify(JSON.parse(String(bytes)))),',
      ),
    ],
    spec: 'test/e2e/adapter-matrix.spec.ts',
    test: 'case 6: content type application/json keeps the signed bytes of',
  },
  {
    name: 'attempts start anew when a row is revived',
    edits: [
      edit(
        'src/storage/claim.sql.ts',
        'attempt_base = attempt, settled_at = NULL, reason = NULL,',
        'attempt = 0, attempt_base = 0, settled_at = NULL, reason = NULL,',
      ),
    ],
    spec: 'test/integration/claim.spec.ts',
    test: 'R06 case 37 a redelivery of a dead event gives its dead handler rows new attempts, once',
  },
  {
    name: 'attempts start anew when a person revives a row',
    edits: [
      edit(
        'src/storage/desk/decision.store.ts',
        'attempt_base = o.attempt,\n           settled_at = NULL, reason = NULL, waits',
        'attempt = 0, attempt_base = 0,\n           settled_at = NULL, reason = NULL, waits',
      ),
    ],
    spec: 'test/integration/model.spec.ts',
    test: 'effects that use their attempts up',
  },
  {
    name: 'an effect that is asked for once more keeps its generation, and so its key',
    edits: [
      edit(
        'src/storage/desk/replay.sql.ts',
        'generation = o.generation + CASE WHEN $2 THEN 1 ELSE 0 END',
        'generation = o.generation + CASE WHEN $2 THEN 0 ELSE 0 END',
      ),
    ],
    spec: 'test/integration/model.spec.ts',
    test: 'effects that use their attempts up',
  },
  {
    name: 'a handler that was done enqueues effects for the first time',
    edits: [
      edit(
        'src/outbox/runs/run.transaction.ts',
        'if (refused.length > 0) throw',
        'if (refused.length > 999) throw',
      ),
    ],
    spec: 'test/integration/new-effects.spec.ts',
    test: 'under the reconciler is undone, and a person is told',
  },
  {
    name: 'a late end settles a row that has been tried again',
    edits: [
      edit(
        'src/storage/settle.sql.ts',
        "WHERE o.id = $1 AND o.attempt = $2\n       AND (o.state = 'parked' OR (o.state = 'pending' AND o.leased_by IS NULL))\n    RETURNING o.id\n  ), kept AS (",
        "WHERE o.id = $1 AND $2::int IS NOT NULL\n       AND (o.state = 'parked' OR (o.state = 'pending' AND o.leased_by IS NULL))\n    RETURNING o.id\n  ), kept AS (",
      ),
    ],
    spec: 'test/integration/model.spec.ts',
    test: 'an effect in doubt whose end comes late',
  },
  {
    name: 'an idempotency key that changes with the attempt',
    edits: [edit('src/outbox/runs/effect.runner.ts', 'key: row.id,', 'key: `${row.id}-${row.attempt}`,')],
    spec: 'test/integration/relay.spec.ts',
    test: 'case 11 each attempt of an effect sees the bytes that were enqueued, under the same key',
  },
  {
    name: 'signatures compared by a comparison that ends at the first difference',
    edits: [
      edit(
        'src/sources/signing/digest.ts',
        'return a.length === b.length && timingSafeEqual(a, b);',
        'return a.equals(b);',
      ),
    ],
    spec: 'test/unit/sources/constant-time.spec.ts',
    test: 'stripe: its word decides',
  },
  {
    name: 'tokens compared by a comparison that ends at the first difference',
    edits: [
      edit(
        'src/sources/signing/digest.ts',
        "secret !== '' && timingSafeEqual(sha256(secret), hash)",
        'secret === text',
      ),
    ],
    spec: 'test/unit/sources/constant-time.spec.ts',
    test: 'telegram: its word decides',
  },
  {
    name: 'the acknowledgement comes before the commit of the claim',
    edits: [
      edit(
        'src/inbox/relay-claims.ts',
        'claimed = await this.group.claim({ source, claims });',
        "void this.group.claim({ source, claims }).catch(() => undefined);\n      return { kind: 'ok' };",
      ),
    ],
    spec: 'test/integration/hand-off.spec.ts',
    test: 'what was committed although the claim failed is given back, and runs once',
  },
  {
    name: 'the newest of a key comes first',
    edits: [
      edit(
        'src/storage/turn.sql.ts',
        'ORDER BY o.due_at, o.id LIMIT 1) f',
        'ORDER BY o.due_at DESC, o.id DESC LIMIT 1) f',
      ),
      edit(
        'src/storage/turn.sql.ts',
        'ORDER BY due_at, id LIMIT 1\n  ), free',
        'ORDER BY due_at DESC, id DESC LIMIT 1\n  ), free',
      ),
    ],
    spec: 'test/integration/order.spec.ts',
    test: 'replayed rows run in the order of their arrival, before what came later',
  },
  {
    name: 'retention may be shorter than what a provider sends again',
    edits: [edit('src/core/options/resolve-source.ts', 'if (askedMs < resendMs) {', 'if (askedMs < 0) {')],
    spec: 'test/integration/retention.spec.ts',
    test: 'case 45: boot refuses a window shorter than what Stripe may resend',
  },
  {
    name: 'retention takes unsettled work',
    edits: [
      edit(
        'src/storage/desk/retention.sql.ts',
        'o.state IN (${states})\n  OR',
        '(o.state IN (${states}) AND false)\n  OR',
      ),
    ],
    spec: 'test/integration/retention.spec.ts',
    test: 'of events with pending work, never touches what is needed to do it',
  },
  {
    name: 'the byte budget lets everything in',
    edits: [
      edit(
        'src/http/body/byte-budget.ts',
        'while (this.heldBytes + bytes > this.options.byteBudget)',
        'while (this.heldBytes + bytes > Infinity)',
      ),
    ],
    spec: 'test/e2e/body-limits.spec.ts',
    test: 'holds the bytes of a delivery until its answer, and gives them back then',
  },
  {
    name: 'the direct route passes by a global guard',
    edits: [
      edit(
        'src/http/direct/host-pipeline.ts',
        'this.mayBeDirect && !this.hasEnhancers()',
        'this.mayBeDirect',
      ),
    ],
    spec: 'test/e2e/direct-route.spec.ts',
    test: 'leaves nothing out that the application has put there: a guard of main.ts',
  },
  {
    name: 'what deliveries run takes no place',
    edits: [
      edit(
        'src/outbox/slots/handler-slots.ts',
        'const free = max - begun.count;\n    return begun',
        'const free = max;\n    return begun',
      ),
    ],
    spec: 'test/e2e/delivery-slots.spec.ts',
    test: 'beside no relay, leaves claims their connections whatever runs',
  },
  {
    name: 'rows of a living process are taken',
    edits: [
      edit(
        'src/storage/postgres/takeover.store.ts',
        'CASE WHEN id = $1 THEN false ELSE pg_try_advisory_xact_lock_shared(lock_key) END AS free',
        'id <> $1 AS free',
      ),
      edit(
        'src/storage/postgres/takeover.store.ts',
        'SELECT id, names FROM gone WHERE pg_try_advisory_xact_lock($2)',
        'SELECT id, names FROM gone WHERE $2 IS NOT NULL',
      ),
    ],
    spec: 'test/crash/takeover.spec.ts',
    test: 'has the work of a killed process go on',
  },
  {
    name: 'a process that has lost its lock does not withdraw it',
    edits: [
      edit(
        'src/outbox/takeover/takeover.ts',
        'await onConnection(this.dataSource, (manager) => this.store.withdraw(manager, lock), WITHDRAW_MS);',
        'void [onConnection, lock, WITHDRAW_MS];',
      ),
    ],
    spec: 'test/crash/takeover.spec.ts',
    test: 'has the work of a killed process go on',
  },
  {
    name: 'after a restart nobody waits for those that come back',
    edits: [edit('src/outbox/takeover/lock-watch.ts', 'sighting.wasHeld ? GRACE_MS : ABSENT_MS', 'GRACE_MS')],
    spec: 'test/unit/lock-watch.spec.ts',
    test: 'not a millisecond sooner than that',
  },
  {
    name: 'a hand-off passes over a paused source',
    edits: [
      edit(
        'src/outbox/relay/hand-off.ts',
        "paused.hasWork('handler', handler) || paused.has('source', handler.source)",
        "paused.hasWork('handler', handler)",
      ),
    ],
    spec: 'test/integration/hand-off.spec.ts',
    test: 'a pause of the source by another instance',
  },
  {
    name: 'an inline handler is paused by its present name alone',
    edits: [
      edit(
        'src/inbox/runs/paused-work.ts',
        "!paused.hasWork('handler', handler)",
        "!paused.has('handler', handler.name)",
      ),
    ],
    spec: 'test/integration/renaming.spec.ts',
    test: 'stays paused where a delivery runs it, by its new name',
  },
  {
    name: 'an effect is called although its lease is gone',
    edits: [
      edit(
        'src/outbox/runs/effect.runner.ts',
        "if (checked.begins && !(await this.doubts.begin(row))) return 'lost';",
        'if (checked.begins) await this.doubts.begin(row);',
      ),
    ],
    spec: 'test/integration/doubt.spec.ts',
    test: 'is not called: whoever has the row makes the call',
  },
  {
    name: 'the place among the enqueued effects is their key',
    edits: [
      edit(
        'src/outbox/enqueue/run-enqueue.ts',
        'const ids = this.ids(effect, key, generation);',
        'const ids = this.ids(effect, String(this.seen.size), generation);',
      ),
    ],
    spec: 'test/integration/effects.spec.ts',
    test: 'has the same ids when the handler runs again',
  },
  {
    name: 'a refused event ends a backfill page in silence',
    edits: [
      edit('src/inbox/catch-up/backfills.ts', 'if (refused.length > 0) throw refused[0];', 'void refused;'),
    ],
    spec: 'test/integration/backfill.spec.ts',
    test: 'claims the others of a page beside one that PostgreSQL refuses',
  },
  {
    name: 'the right to see is the right to erase',
    edits: [edit('src/dashboard/dashboard.actions.ts', "erase: 'erase',", "erase: 'view',")],
    spec: 'test/e2e/dashboard.spec.ts',
    test: 'erase needs erase',
  },
  {
    name: 'the right to see is the right to give up',
    edits: [edit('src/dashboard/dashboard.actions.ts', "'give-up': 'give-up',", "'give-up': 'view',")],
    spec: 'test/e2e/dashboard.spec.ts',
    test: 'give-up needs give-up',
  },
  {
    name: 'hidden payloads may be forwarded',
    edits: [
      edit(
        'src/dashboard/dashboard.controller.ts',
        "if (action === 'forward' && this.options.payloads === 'hidden') return false;",
        '',
      ),
    ],
    spec: 'test/e2e/dashboard.spec.ts',
    test: 'sends nothing on that may not be seen here',
  },
  ...['authorization', 'cookie', 'proxy-authorization', 'set-cookie'].map((name) => ({
    name: `samples keep the header ${name}`,
    edits: [edit('src/operator/explain/rejection.explainer.ts', `'${name}'`, `'not-${name}'`)],
    spec: 'test/integration/operator.rejections.spec.ts',
    test: 'R33 are verified again once the secret is corrected, and taken in',
  })),
  {
    name: 'no cap of the back-off',
    edits: [
      edit(
        'src/core/options/retry.ts',
        'Math.min(policy.capMs, policy.baseMs * 2 ** Math.min(attempt - 1, 52))',
        'policy.baseMs * 2 ** Math.min(attempt - 1, 52)',
      ),
    ],
    spec: 'test/integration/failures.spec.ts',
    test: 'which doubles up to the cap',
  },
  {
    name: 'a superseded event is settled without its lease',
    edits: [
      edit(
        'src/storage/settle.sql.ts',
        `place = NULL, alone = false
     WHERE \${FENCE}
    RETURNING o.id
  )
  SELECT id FROM superseded`,
        `place = NULL, alone = false
     WHERE o.id = $1 AND $2::int IS NOT NULL AND $3::uuid IS NOT NULL
    RETURNING o.id
  )
  SELECT id FROM superseded`,
      ),
    ],
    spec: 'test/integration/lease.spec.ts',
    test: 'lets nothing through that a process does whose lease has ended',
  },
  {
    name: 'a row is handed before the engine has confirmed its message',
    edits: [
      edit(
        'src/outbox/engine/engine-link.ts',
        'const errors = await this.publish(batch);',
        'await this.settle(batch.map(({ row }) => row));\n    const errors = await this.publish(batch);',
      ),
    ],
    spec: 'test/engines/bullmq.spec.ts',
    test: 'a broker that is down blocks nothing else',
  },
  {
    name: 'a consumer reports an effect before its transaction has committed',
    edits: [
      edit(
        'src/consumer/consumer.runs.ts',
        'result = await this.run(run);',
        "await this.report(run, run.report('done'), delivery.signal);\n      result = await this.run(run);",
      ),
    ],
    spec: 'test/engines/bullmq.spec.ts',
    test: 'a consumer retries, reports the death',
  },
  {
    name: 'a report of death ends another life of the row',
    edits: [
      edit(
        'src/storage/engine/engine.store.ts',
        "f.life = $6 AND (f.state = 'handed'",
        "$6::int IS NOT NULL AND (f.state = 'handed'",
      ),
    ],
    spec: 'test/engines/bullmq.spec.ts',
    test: 'a death that is reported of a former life',
  },
  {
    name: 'the end of the code is checked before the gate closes, so that a query comes between them',
    spec: 'test/integration/closed-manager.spec.ts',
    test: 'one that starts a write some microtasks after its return, 50 times',
    edits: [
      {
        file: 'src/storage/postgres/user-transaction.ts',
        find: '      this.gate.close(call);\n      if (call.fault',
        replace: '      if (call.fault',
      },
    ],
  },
];
