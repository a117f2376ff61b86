import { Injectable, type INestApplicationContext } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  EffectConsumerModule,
  OnEffect,
  OnWebhook,
  Outbox,
  PermanentError,
  type EffectContext,
  type EffectTransport,
  type HandlerContext,
  type TransportOptions,
  type WebhookEvent,
} from '../../src/index.js';
import { createDatabase, options, type TestDatabase } from '../support/database.js';
import { until } from '../support/application.js';
import { startInbox, type InboxSetup, type TestInbox } from '../integration/support/inbox.js';

/** How the consumer's method behaves for a payload, and what it was called with. */
export const calls: string[] = [];
export const localCalls: string[] = [];
export const failures = new Map<string, (attempt: number) => Error | undefined>();

export interface Mail {
  readonly to: string;
}

const quick = { retry: { base: 1, cap: 1, maxAttempts: 3 } } as const;

/** The consumer's application. */
@Injectable()
export class Postman {
  @OnEffect('mail', quick)
  async mail({ to }: Mail, { key, manager, attempt }: EffectContext) {
    calls.push(key);
    const error = failures.get(to)?.(attempt);
    if (error !== undefined) throw error;
    await manager?.query(`INSERT INTO applied (key) VALUES ($1)`, [key]);
    return { sent: to };
  }
}

/** The application that receives. */
@Injectable()
export class Office {
  @OnWebhook('awardee', 'grant.made')
  async made({ payload }: WebhookEvent<Mail>, { enqueue }: HandlerContext) {
    await enqueue('mail', payload);
    return 'enqueued';
  }

  @OnEffect('mail', quick)
  async mail(_: Mail, { key }: EffectContext) {
    localCalls.push(key);
    return 'locally';
  }

  @OnEffect('local')
  async local(_: unknown, { key }: EffectContext) {
    localCalls.push(key);
  }
}

export const permanent = () => new PermanentError('no such address');

/** An application that hands effects over, with its relay running. */
export function startSender(
  transports: readonly TransportOptions[],
  setup: InboxSetup = {},
): Promise<TestInbox> {
  const { webhooks } = setup;
  return startInbox({
    loop: true,
    providers: [Office],
    ...setup,
    webhooks: { relay: { pollInterval: '100ms', lease: '1s' }, ...webhooks, transports },
  });
}

export interface Consumer {
  readonly app: INestApplicationContext;
  close(): Promise<void>;
}

/** An application that takes effects, with a database of its own where `database` is given. */
export async function startConsumer(
  transport: EffectTransport,
  database?: TestDatabase,
  shutdownGrace = '5s',
): Promise<Consumer> {
  const consumer = { transport, shutdownGrace, concurrency: 5 };
  const moduleRef = await Test.createTestingModule({
    imports: [
      ...(database === undefined
        ? []
        : [TypeOrmModule.forRoot({ ...options(database.url), retryAttempts: 0 })]),
      EffectConsumerModule.forRoot(database === undefined ? { ...consumer, dataSource: false } : consumer),
    ],
    providers: [Postman],
  }).compile();
  const app = await moduleRef.init();
  return { app, close: () => app.close() };
}

/** The consumer's database, with the table of its own that the effect writes to. */
export async function consumerDatabase(): Promise<TestDatabase> {
  const database = await createDatabase();
  await database.query(`CREATE TABLE applied (key uuid, at timestamptz DEFAULT now())`);
  return database;
}

/** Enqueues effects as a service of the application does. Returns their ids. */
export async function enqueue({ app, dataSource }: TestInbox, effect: string, tos: readonly string[]) {
  const outbox = app.get(Outbox);
  return dataSource.transaction(async (manager) => {
    const ids: string[] = [];
    for (const to of tos) ids.push((await outbox.enqueue(manager, effect, { to })).id);
    return ids;
  });
}

/** Waits until each of the rows is in a state. */
export async function inState({ query }: Pick<TestInbox, 'query'>, state: string, ids: readonly string[]) {
  await until(async () => {
    const rows = await query(`SELECT FROM webhook_outbox WHERE id = ANY($1) AND state = $2`, [ids, state]);
    return rows.length === ids.length;
  }, 40_000);
}

/** How often each key was called. */
export function timesCalled(ids: readonly string[]): number[] {
  return ids.map((id) => [...calls, ...localCalls].filter((key) => key === id).length);
}
