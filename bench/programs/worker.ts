// Our relay in a process of its own, and the loop that articles show instead of one.
import 'reflect-metadata';
import { randomUUID } from 'node:crypto';
import { Injectable, Module, type INestApplicationContext, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type EntityManager } from 'typeorm';
import {
  hmac,
  Inbox,
  OnEffect,
  OnWebhook,
  WebhooksModule,
  type BatchEvent,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { LeasedWork } from '../../src/outbox/relay/leased-work.js';
import { RelayLoop } from '../../src/outbox/relay/relay.loop.js';
import { WakeUp } from '../../src/outbox/wake/wake-up.js';
import { pgClient } from '../../src/storage/postgres/connection.js';
import { inOneMessage, prepared, queryBehind } from '../../src/storage/postgres/one-message.js';
import { WRITE } from '../support/business-write.js';
import { serve } from '../support/program.js';
import { eventBody, SECRET, signature } from '../support/signed.js';

export interface WorkerSettings {
  readonly databaseUrl: string;
  readonly relay?: boolean;
  /** Effects at once. */
  readonly effects?: number;
  /** Handlers beside those that are measured, whose events never come. @default 0 */
  readonly others?: number;
  /** Whether those take batches. @default false */
  readonly othersInBatches?: boolean;
  /** Handlers that share the events of the source `spread`. @default 0 */
  readonly spread?: number;
}
export interface DrainOrder {
  readonly work: 'effects' | 'handlers' | 'spread' | 'batches' | 'articles' | 'messages' | 'leased';
  readonly jobs: number;
  /** Jobs beside them that are pending all the while, worked off afterwards. @default 0 */
  readonly waiting?: number;
  /** Whether this process enqueues them: several share one database. @default true */
  readonly fills?: boolean;
}
export interface DrainResult {
  readonly seconds: number;
  readonly jobs: number;
  /** On one scale for all processes of the machine, in milliseconds. */
  readonly beganAt: number;
  readonly endedAt: number;
}
/** For a backlog that stays: `fill` adds effects that wait, `next` works off so many of them. */
export interface BacklogOrder {
  readonly work: 'fill' | 'next';
  readonly count: number;
}
/** For latency: claim so many events one after the other, or say when handlers started. */
export interface LatencyOrder {
  readonly work: 'send' | 'starts';
  readonly samples: number;
  readonly prefix: string;
}

/** On one scale for all processes of the machine. */
const now = () => performance.timeOrigin + performance.now();

@Injectable()
class Works {
  static count = 0;
  static firstAt = 0;
  static readonly starts = new Map<string, number>();

  static started(): void {
    if (Works.count === 0) Works.firstAt = performance.now();
    Works.count += 1;
  }

  @OnEffect('nothing')
  async nothing() {
    Works.started();
  }

  @OnWebhook('single', '*', { name: 'write' })
  async single({ source, eventId, type }: WebhookEvent, { manager }: HandlerContext) {
    Works.started();
    await write(manager, [[source, eventId, type]]);
  }

  @OnWebhook('batch', '*', { name: 'write', batch: 100 })
  async batch(events: readonly BatchEvent[], { manager }: { readonly manager: EntityManager }) {
    for (const _ of events) Works.started();
    await write(
      manager,
      events.map(({ source, eventId, type }) => [source, eventId, type]),
    );
  }

  @OnWebhook('timed', '*', { name: 'start' })
  timed({ eventId }: WebhookEvent) {
    Works.starts.set(eventId, now());
  }
}

/** Handlers of a large application that have nothing to do. */
function othersOf(count: number, inBatches: boolean): Type {
  class Others {
    async never() {}

    async neverAny(_events: readonly BatchEvent[]) {}
  }
  const method = Object.getOwnPropertyDescriptor(Others.prototype, 'never')!;
  const batch = Object.getOwnPropertyDescriptor(Others.prototype, 'neverAny')!;
  for (let nth = 0; nth < count; nth += 1) {
    const [type, name] = [`never.${nth}`, `never-${nth}`];
    if (inBatches) OnWebhook('timed', type, { name, batch: 100 })(Others.prototype, 'neverAny', batch);
    else OnWebhook('timed', type, { name })(Others.prototype, 'never', method);
  }
  Injectable()(Others);
  return Others;
}

/** Handlers with one write each, of which an event has one. */
function sharersOf(count: number): Type {
  class Sharers {
    async write({ source, eventId, type }: WebhookEvent, { manager }: HandlerContext) {
      Works.started();
      await write(manager, [[source, eventId, type]]);
    }
  }
  const method = Object.getOwnPropertyDescriptor(Sharers.prototype, 'write')!;
  for (let nth = 0; nth < count; nth += 1)
    OnWebhook('spread', '*', { name: String(nth) })(Sharers.prototype, 'write', method);
  Injectable()(Sharers);
  return Sharers;
}

const written = (rows: readonly (readonly string[])[]) =>
  [0, 1, 2].map((column) => rows.map((row) => row[column]));

async function write(manager: Pick<EntityManager, 'query'>, rows: readonly (readonly string[])[]) {
  await manager.query(WRITE, written(rows));
}

const uuid = (
  salt: string,
) => `(rpad(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0'), 12, '0') ||
  '8000' || substr(md5('${salt}' || g), 1, 16))::uuid`;

/** Rows as their enqueuing would have left them, in one transaction. */
async function fill(
  { manager }: DataSource,
  { work, jobs }: Pick<DrainOrder, 'work' | 'jobs'>,
  nth: number,
  spread = 1,
): Promise<void> {
  await manager.transaction(async (transaction) => {
    if (work === 'effects') {
      await transaction.query(
        `WITH job AS (SELECT ${uuid(`e${nth}`)} AS id FROM generate_series(1, $1) g), data AS (
           INSERT INTO webhook_outbox_data (outbox_id, payload) SELECT id, '{"n":1}' FROM job)
         INSERT INTO webhook_outbox (id, kind, name) SELECT id, 'effect', 'nothing' FROM job`,
        [jobs],
      );
      return;
    }
    const source = work === 'batches' ? 'batch' : work === 'spread' ? 'spread' : 'single';
    const handler = work === 'spread' ? `(split_part(event_id, '-', 2)::int % ${spread})` : `'write'`;
    await transaction.query(
      `INSERT INTO webhook_claim (source, tenant, event_id, id, event_type, origin, verified_by, owed, headers, body)
       SELECT '${source}', '', 'd${nth}-' || g, ${uuid(`c${nth}`)}, 'invoice.paid', 'delivery', 'x', 1, '{"content-type":"application/json"}', $2
         FROM generate_series(1, $1) g`,
      [jobs, Buffer.from(eventBody('d'))],
    );
    await transaction.query(
      `INSERT INTO webhook_outbox (id, kind, name, source, tenant, event_id)
       SELECT (left(id::text, 18) || right(md5(id::text)::uuid::text, 18))::uuid, 'handler', '${source}/' || ${handler}, source, tenant, event_id
         FROM webhook_claim WHERE source = '${source}' AND event_id LIKE 'd${nth}-%'`,
    );
  });
}

async function drain(
  app: INestApplicationContext,
  order: DrainOrder,
  nth: number,
  spread: number | undefined,
): Promise<DrainResult> {
  const dataSource = app.get(DataSource);
  if (order.work === 'articles') return articles(dataSource, order.jobs, nth);
  if (order.work === 'messages') return messages(dataSource, order.jobs, nth);
  if (order.work === 'leased') return leased(dataSource, order.jobs, nth);
  const { jobs, waiting = 0, fills = true } = order;
  const isLeft = async () => {
    // By the lease's index: asked for all that is pending it would read the table from end to end, each time, beside what is measured.
    const left: unknown[] = await dataSource.query(
      `SELECT FROM webhook_outbox WHERE state = 'pending' AND NOT waits AND NOT alone LIMIT 1`,
    );
    return left.length > 0;
  };
  Works.count = 0;
  Works.firstAt = Infinity;
  if (fills) {
    await fill(dataSource, { ...order, jobs: jobs + waiting }, nth, spread);
    app.get(WakeUp).wake();
  } else {
    while (Works.count === 0 && !(await isLeft())) await pause(2);
  }
  if (waiting > 0) while (Works.count < jobs) await pause(2);
  const enoughAt = performance.now();
  // Begun is not settled yet.
  while (await isLeft()) await pause(Works.count < jobs ? 20 : 2);
  const endedAt = waiting > 0 ? enoughAt : performance.now();
  return {
    seconds: (endedAt - Works.firstAt) / 1_000,
    jobs,
    beganAt: performance.timeOrigin + Works.firstAt,
    endedAt: performance.timeOrigin + endedAt,
  };
}

const STEP = 500_000;

/** A backlog of which each order takes a part. Between two orders the relay rests. */
class Backlog {
  private goOn: (() => void) | undefined;
  private filled = 0;

  constructor(private readonly app: INestApplicationContext) {}

  async fill(count: number): Promise<void> {
    this.rest();
    for (let left = count; left > 0; left -= STEP) {
      this.filled += 1;
      await fill(this.app.get(DataSource), { work: 'effects', jobs: Math.min(left, STEP) }, -this.filled);
    }
    await this.app.get(DataSource).query('VACUUM ANALYZE webhook_outbox, webhook_outbox_data');
  }

  async next(count: number): Promise<Pick<DrainResult, 'seconds' | 'jobs'>> {
    Works.count = 0;
    this.goOn?.();
    while (Works.count < count) await pause(2);
    const jobs = Works.count;
    const endedAt = performance.now();
    this.rest();
    await this.app.get(LeasedWork).waitForRuns();
    return { seconds: (endedAt - Works.firstAt) / 1_000, jobs };
  }

  private rest(): void {
    void this.app.get(RelayLoop).hold(() => new Promise<void>((resolve) => (this.goOn = resolve)));
  }
}

/** BEGIN, claim, write, mark processed, COMMIT for each event. */
function articles(dataSource: DataSource, jobs: number, nth: number): Promise<DrainResult> {
  return atOnce(jobs, async (one) => {
    const id = `a${nth}-${one}`;
    await dataSource.transaction(async (manager) => {
      const claimed: unknown[] = await manager.query(
        `INSERT INTO processed_event (event_id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING event_id`,
        [id],
      );
      if (claimed.length === 0) return;
      await write(manager, [['articles', id, 'invoice.paid']]);
      await manager.query(`UPDATE processed_event SET processed_at = now() WHERE event_id = $1`, [id]);
    });
  });
}

/**
 * The least that a handler with a transaction of its own can be: BEGIN with the write in one message, and marking a row that is there
 * with COMMIT in another; what is not the handler's own, prepared. No lease, no event, no settings, no fence, no ORM.
 */
async function messages(dataSource: DataSource, jobs: number, nth: number): Promise<DrainResult> {
  await dataSource.query(
    `INSERT INTO processed_event (event_id) SELECT 'm${nth}-' || g FROM generate_series(1, $1::int) g`,
    [jobs],
  );
  const { work, end } = await twoMessages(dataSource);
  const result = await atOnce(jobs, async (one) => {
    const id = `m${nth}-${one}`;
    await work(id, {
      sql: `UPDATE processed_event SET processed_at = now() WHERE event_id = $1`,
      values: [id],
    });
  });
  await end();
  return result;
}

/** Rows ahead for seven places, as many as our relay leases at most. */
const LEASED = 21;
const LEASE = `UPDATE owed_event SET attempt = attempt + 1, leased_by = $1, due_at = now() + interval '30 s'
  WHERE event_id IN (SELECT event_id FROM owed_event WHERE processed_at IS NULL AND due_at <= now()
                      ORDER BY due_at LIMIT ${LEASED} FOR UPDATE SKIP LOCKED)
  RETURNING event_id, attempt`;

/**
 * The same of rows that are leased first, so that a run that kills its process is counted and another process runs no row of ours: one
 * index to find them by, and a fence. Still no event, no settings, no ORM.
 */
async function leased(dataSource: DataSource, jobs: number, nth: number): Promise<DrainResult> {
  await dataSource.query(
    `INSERT INTO owed_event (event_id) SELECT 'l${nth}-' || g FROM generate_series(1, $1::int) g`,
    [jobs],
  );
  const owner = randomUUID();
  const rows: { event_id: string; attempt: number }[] = [];
  let leasing: Promise<void> | undefined;
  const lease = async () => {
    rows.push(...(await prepared<(typeof rows)[number]>(dataSource.manager, LEASE, [owner])));
    leasing = undefined;
  };
  const { work, end } = await twoMessages(dataSource);
  const result = await atOnce(jobs, async (one) => {
    while (rows.length === 0) await (leasing ??= lease());
    const { event_id: id, attempt } = rows.shift()!;
    if (rows.length <= AT_ONCE && one + rows.length < jobs) leasing ??= lease();
    const sql = `UPDATE owed_event SET processed_at = now(), leased_by = NULL
      WHERE event_id = $1 AND attempt = $2 AND leased_by = $3`;
    await work(id, { sql, values: [id, attempt, owner] });
  });
  await end();
  return result;
}

async function twoMessages(dataSource: DataSource) {
  const runners = Array.from({ length: AT_ONCE }, () => dataSource.createQueryRunner());
  const free = await Promise.all(runners.map(pgClient));
  return {
    work: async (id: string, mark: { sql: string; values: readonly unknown[] }) => {
      const client = free.pop()!;
      const query = { sql: WRITE, values: written([['messages', id, 'invoice.paid']]) };
      const answers = await queryBehind(client, [{ sql: 'BEGIN' }], query, client.query.bind(client));
      if (answers?.error !== null) throw answers?.error ?? new Error('something copies queries of pg');
      await inOneMessage(client, dataSource, [mark, { sql: 'COMMIT' }]);
      free.push(client);
    },
    end: () => Promise.all(runners.map((runner) => runner.release())),
  };
}

/** As many at once as our relay runs with the same pool. */
async function atOnce(jobs: number, work: (nth: number) => Promise<void>): Promise<DrainResult> {
  const startedAt = performance.now();
  let next = 0;
  const one = async () => {
    while (next < jobs) await work((next += 1));
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  const endedAt = performance.now();
  const { timeOrigin } = performance;
  return {
    seconds: (endedAt - startedAt) / 1_000,
    jobs,
    beganAt: timeOrigin + startedAt,
    endedAt: timeOrigin + endedAt,
  };
}

const POOL = 10;
const AT_ONCE = POOL - 3;
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** Claims one event after the other, with rests, and says when each was acknowledged. */
async function send(
  app: INestApplicationContext,
  { samples, prefix }: LatencyOrder,
): Promise<[string, number][]> {
  const acked: [string, number][] = [];
  for (let nth = 0; nth < samples; nth += 1) {
    const id = `${prefix}${nth}`;
    const body = eventBody(id);
    const headers = { 'content-type': 'application/json', ...signature('hmac', body) };
    await app.get(Inbox).receive('timed', { headers, rawBody: Buffer.from(body) });
    acked.push([id, now()]);
    await pause(80);
  }
  return acked;
}

async function starts({ samples, prefix }: LatencyOrder): Promise<[string, number][]> {
  const own = () => [...Works.starts].filter(([id]) => id.startsWith(prefix));
  while (own().length < samples) await pause(5);
  return own();
}

function moduleOf({
  databaseUrl,
  relay = true,
  effects = 20,
  others = 0,
  othersInBatches = false,
  spread = 0,
}: WorkerSettings): Type {
  const source = () =>
    hmac({ secrets: [SECRET], signatureHeader: 'x-signature', idPath: 'id', typePath: 'type' });
  @Module({
    imports: [
      TypeOrmModule.forRoot({ type: 'postgres', url: databaseUrl, poolSize: POOL }),
      ScheduleModule.forRoot(),
      WebhooksModule.forRoot({
        sources: { single: source(), batch: source(), timed: source(), spread: source() },
        relay: relay && { effects },
        reconcile: false,
        retention: false,
      }),
    ],
    providers: [Works, othersOf(others, othersInBatches), sharersOf(spread)],
  })
  class Worker {}
  return Worker;
}

await serve(async (settings: WorkerSettings) => {
  const app = await NestFactory.createApplicationContext(moduleOf(settings), { logger: ['error', 'warn'] });
  const backlog = new Backlog(app);
  let nth = 0;
  return {
    ready: {},
    run: async (order) => {
      const given = order as DrainOrder | BacklogOrder | LatencyOrder;
      if ('jobs' in given) return drain(app, given, (nth += 1), settings.spread);
      if ('count' in given)
        return given.work === 'fill' ? backlog.fill(given.count) : backlog.next(given.count);
      return given.work === 'send' ? send(app, given) : starts(given);
    },
    stop: () => app.close(),
  };
});
