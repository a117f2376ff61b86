import { Query, type Client } from 'pg';
import type { EntityManager } from 'typeorm';
import type { HandlerContext, WebhookEvent } from '../../../src/index.js';
import { record } from './inbox.js';

/** A write that the handler does not wait for, and whose failure nobody catches. */
export function stray(manager: EntityManager, event: WebhookEvent): Promise<unknown> {
  return manager.query(`INSERT INTO received_event (source, event_id, event_type) VALUES ('stray', $1, '')`, [
    event.eventId,
  ]);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

type Manager = Pick<HandlerContext, 'manager'>;

/**
 * Handlers that go wrong in a way that TypeORM alone would commit some of. Those that time out do so where less time is given than they
 * take.
 */
export const faults = ({
  pauseMs,
  queryMs,
}: {
  readonly pauseMs: number;
  readonly queryMs: number;
}): Record<string, (event: WebhookEvent, context: Manager) => unknown> => ({
  'times out': async (event, context) => {
    await record(event, context);
    await pause(pauseMs);
    await stray(context.manager, event);
  },
  'times out in a query': async (event, context) => {
    await record(event, context);
    await context.manager.query('SELECT pg_sleep($1)', [queryMs / 1000]);
    await stray(context.manager, event);
  },
  'does not await a write': async (event, context) => {
    await record(event, context);
    void stray(context.manager, event);
  },
  'does not await a write that is on its way': async (event, context) => {
    await record(event, context);
    void stray(context.manager, event);
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  },
  'does not await manager.transaction()': async (event, context) => {
    await record(event, context);
    void context.manager.transaction((inner) => stray(inner, event));
  },
  'does not await manager.transaction(), which is half-way when it ends': async (event, context) => {
    await record(event, context);
    const written = new Promise<void>((resolve) => {
      void context.manager.transaction(async (inner) => {
        await stray(inner, event);
        resolve();
        await pause(5);
        await inner.query('SELECT 1');
      });
    });
    await written;
  },
  'swallows a query error': async (event, context) => {
    await record(event, context);
    await stray(context.manager, event);
    await context.manager.query('SELECT 1 / 0').catch(() => undefined);
  },
  'has a Promise.all of which one is rejected': async (event, context) => {
    await record(event, context);
    await Promise.all([
      context.manager.query('SELECT 1 / 0'),
      pause(1).then(() => stray(context.manager, event)),
      stray(context.manager, event),
    ]);
  },
  'throws while a write is on its way': async (event, context) => {
    await record(event, context);
    void stray(context.manager, event);
    throw new Error('on purpose');
  },
  'leaves a query object running': async (event, context) => {
    await record(event, context);
    const client = (await context.manager.queryRunner!.connect()) as Client;
    client.query(new Query('SELECT pg_sleep(0.01)'));
  },
  'ends the transaction itself': async (event, context) => {
    await record(event, context);
    await context.manager.query('ROLLBACK');
  },
  'starts a write in the very turn in which it returns': async (event, context) => {
    await record(event, context);
    setImmediate(() => void stray(context.manager, event));
  },
  'starts a write some microtasks after its return': async (event, context) => {
    await record(event, context);
    void afterMicrotasks(event, () => stray(context.manager, event));
  },
  'starts a transaction some microtasks after its return': async (event, context) => {
    await record(event, context);
    void afterMicrotasks(event, () => context.manager.transaction((inner) => stray(inner, event)));
  },
});

/** As many as the event's number says: the check at the end of the code must leave no gap among them. */
async function afterMicrotasks({ eventId }: WebhookEvent, start: () => Promise<unknown>): Promise<void> {
  const count = Number(/\d+/.exec(eventId)?.[0] ?? 0);
  for (let nth = 0; nth < count; nth += 1) await Promise.resolve();
  await start().catch(() => undefined);
}
