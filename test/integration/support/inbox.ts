import { Injectable, type INestApplication, type Type } from '@nestjs/common';
import { DataSource } from 'typeorm';
import {
  Inbox,
  OnEffect,
  OnWebhook,
  OutboxRelay,
  type Alert,
  type Answer,
  type EffectContext,
  type EffectOptions,
  type HandlerContext,
  type HandlerOptions,
  type WebhookEvent,
} from '../../../src/index.js';
import type { WebhooksOptions } from '../../../src/core/options/options.js';
import { WEBHOOKS_DATA_SOURCE } from '../../../src/core/tokens.js';
import { DeskKeeper } from '../../../src/operator/desk.keeper.js';
import { RelayLoop } from '../../../src/outbox/relay/relay.loop.js';
import { LeasedWork } from '../../../src/outbox/relay/leased-work.js';
import { Leaser } from '../../../src/outbox/relay/leaser.js';
import { createApplication, IDLE_LOOP, until, type ApplicationSetup } from '../../support/application.js';
import { createDatabase, type TestDatabase } from '../../support/database.js';
import { awardee } from '../../support/signing.js';
import { awardeeSource } from '../../support/sources.js';
import type { OutboxRow } from '../../support/tables.js';
import { poolOf, expectNoLeak } from './pool.js';

export { awardeeSource } from '../../support/sources.js';
export { INSERT_RECORD, record, type OutboxRow } from '../../support/tables.js';

/** An application around the module, its database, and what the tests do with them. */
export interface TestInbox {
  readonly app: INestApplication;
  readonly database: TestDatabase;
  readonly relay: OutboxRelay;
  readonly leaser: Leaser;
  readonly work: LeasedWork;
  /** Starts the runs of one round as the relay's loop does. True when there may be more that is due. */
  startRound(): Promise<boolean>;
  /** The application's own DataSource, with the pool that handlers and claims share. */
  readonly dataSource: DataSource;
  readonly alerts: Alert[];
  /** Delivers an event as its provider would, without HTTP. A payload that is text is sent as it is. */
  deliver(id: string, type?: string, payload?: unknown, source?: string): Promise<Answer>;
  /** Delivers to another source than `awardee`. */
  deliverTo(source: string, id: string, payload?: unknown): Promise<Answer>;
  query<T = Record<string, unknown>>(sql: string, parameters?: unknown[]): Promise<T[]>;
  /** Outbox rows in the order of their creation. */
  rows(where?: string): Promise<OutboxRow[]>;
  /** Makes every waiting row due now, as if its time had come. */
  makeDue(): Promise<void>;
  /** Rounds, each with every waiting row made due, until nothing is pending. */
  settle(): Promise<void>;
  /** Closes the application, after a check that the pool got every connection back. */
  stop(): Promise<void>;
}

export interface InboxSetup extends Partial<Omit<ApplicationSetup, 'webhooks'>> {
  readonly webhooks?: Partial<ApplicationSetup['webhooks']>;
  /** Whether the relay runs by itself. @default false: the test calls `tick()` */
  readonly loop?: boolean;
  /** A database that the test has made and drops itself. */
  readonly database?: TestDatabase;
}

export async function startInbox(setup: InboxSetup): Promise<TestInbox> {
  const database = setup.database ?? (await createDatabase());
  const alerts: Alert[] = [];
  const options: WebhooksOptions = {
    sources: { awardee: awardeeSource() },
    onAlert: (alert) => void alerts.push(alert),
    reconcile: false,
    retention: false,
    ...setup.webhooks,
  };
  const app = await createApplication({
    databaseUrl: database.url,
    ...setup,
    webhooks: options,
    configure: (app) => {
      // What it writes down in the background would meet what a test does to connections and tables.
      if (setup.loop !== true) app.get(DeskKeeper).onApplicationBootstrap = () => undefined;
      setup.configure?.(app);
    },
    override: (builder) => {
      const base = setup.override?.(builder) ?? builder;
      return setup.loop === true ? base : base.overrideProvider(RelayLoop).useValue(IDLE_LOOP);
    },
  });
  const relay = app.get(OutboxRelay);
  const leaser = app.get(Leaser);
  const dataSource = app.get<DataSource>(WEBHOOKS_DATA_SOURCE);
  const query: TestInbox['query'] = (sql, parameters) => database.query(sql, parameters);
  const deliver: TestInbox['deliver'] = (id, type = 'grant.made', payload = {}, source = 'awardee') => {
    const { headers, body } = awardee(id, type, payload);
    return app.get(Inbox).receive(source, { headers, rawBody: body });
  };
  const makeDue = async () => {
    await query(
      `UPDATE webhook_outbox SET due_at = now() WHERE state = 'pending' AND leased_by IS NULL AND due_at > now()`,
    );
  };
  return {
    app,
    database,
    relay,
    leaser,
    work: app.get(LeasedWork),
    startRound: async () => {
      let any = false;
      leaser.wake(undefined);
      await leaser.lease(true, { onStart: () => (any = true) });
      return any;
    },
    dataSource,
    alerts,
    query,
    makeDue,
    deliver,
    deliverTo: (source, id, payload) => deliver(id, 'grant.made', payload, source),
    rows: (where = 'true') =>
      query<OutboxRow>(`SELECT * FROM webhook_outbox WHERE ${where} ORDER BY created_at, id`),
    settle: async () => {
      await until(async () => {
        await makeDue();
        await relay.tick();
        return (await query(`SELECT FROM webhook_outbox WHERE state = 'pending' LIMIT 1`)).length === 0;
      });
    },
    stop: async () => {
      const leak: unknown = dataSource.isInitialized
        ? await expectNoLeak(poolOf(dataSource)).catch((error: unknown) => error)
        : undefined;
      const closed = app.close().then(() => (setup.database === undefined ? database.drop() : undefined));
      // A pool ends when every connection is back: with one missing, the close would hide which test it was behind a time-out.
      if (leak !== undefined) {
        closed.catch(() => undefined);
        throw leak;
      }
      await closed;
    },
  };
}

/** What the methods of `scripted` do; a test sets them, and may change them between attempts. */
export interface Script {
  handle: (event: WebhookEvent, context: HandlerContext) => unknown;
  effect: (payload: unknown, context: EffectContext) => unknown;
}

/** A class with one handler, `handle`, of everything that its sources send, and one effect, `mail`; their code is the script's. */
export function scripted(
  script: Partial<Script>,
  options: { handler?: HandlerOptions; effect?: EffectOptions | false; sources?: readonly string[] } = {},
): Type {
  @Injectable()
  class Scripted {
    handle(event: WebhookEvent, context: HandlerContext) {
      return script.handle?.(event, context);
    }

    effect(payload: unknown, context: EffectContext) {
      return script.effect?.(payload, context);
    }
  }
  const decorate = (method: 'handle' | 'effect', decorator: MethodDecorator) =>
    void decorator(Scripted.prototype, method, Object.getOwnPropertyDescriptor(Scripted.prototype, method)!);
  for (const source of options.sources ?? ['awardee']) {
    decorate('handle', OnWebhook(source, '*', { name: 'handle', ...options.handler }));
  }
  if (options.effect !== false) decorate('effect', OnEffect('mail', options.effect));
  return Scripted;
}

/** Empties every table. What an aborted run has left on the server may still hold a lock for a moment. */
export async function clear(database: TestDatabase): Promise<void> {
  await until(() =>
    database
      .query(
        `TRUNCATE webhook_claim, webhook_outbox, webhook_outbox_data, webhook_conflict, webhook_lease, webhook_pause,
                  webhook_watermark, webhook_replay, webhook_refire, webhook_audit, webhook_destination, received_event`,
      )
      .then(() => true)
      .catch((error: unknown) => {
        if ((error as { code?: string }).code !== '40P01') throw error;
        return false;
      }),
  );
}
