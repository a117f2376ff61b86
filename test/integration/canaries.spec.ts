import { Injectable, type INestApplication } from '@nestjs/common';
import { EntityNotFoundError } from 'typeorm';
import {
  Inbox,
  OnEffect,
  OnWebhook,
  type Alert,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { DeskKeeper } from '../../src/operator/desk.keeper.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { deskSources } from '../support/desk.js';
import { awardee } from '../support/signing.js';

type Card = { readonly card: string };
type Query = (sql: string, values?: unknown[]) => Promise<unknown>;

/** Ways in which the database, a driver or a parser repeats what it was given. */
const ECHOES: Readonly<Record<string, (query: Query, card: string) => Promise<unknown>>> = {
  'text for a number': (query, card) => query('SELECT $1::text::int', [card]),
  'text with quotes for a number': (query, card) => query('SELECT $1::text::int', [`a"${card}"b"`]),
  'text for a date': (query, card) => query('SELECT $1::text::timestamptz', [card]),
  'text for JSON': (query, card) => query('SELECT $1::text::jsonb', [`{"a": ${card}`]),
  'a unique key': async (query, card) => {
    await query('INSERT INTO canary_card VALUES ($1)', [card]);
    await query('INSERT INTO canary_card VALUES ($1)', [card]);
  },
  'a check': (query, card) => query('INSERT INTO canary_card VALUES ($1, -1)', [card]),
  'a value in the statement': (query, card) =>
    query(`SELECT 1 FROM nowhere WHERE a = '${card}' ${card} ${card}`),
  'a trigger': (query, card) => query('SELECT canary_raise($1)', [card]),
  'a trigger with a code of its own': (query, card) => query(`SELECT canary_raise($1, '40001')`, [card]),
  'a wrapped error': async (query, card) => {
    try {
      await query('SELECT $1::text::int', [card]);
    } catch (error) {
      throw new Error(`could not save: ${(error as Error).message}`, { cause: error });
    }
  },
  'an entity that is not there': async (_query, card) => {
    throw new EntityNotFoundError('Card', { card });
  },
  'a parser': async (_query, card) => JSON.parse(`${card} is no JSON`),
};

@Injectable()
class Echoing {
  @OnWebhook('awardee', 'echo', { retry: { maxAttempts: 1 } })
  async echo(event: WebhookEvent<Card & { how: string }>, { manager }: HandlerContext) {
    await ECHOES[event.payload.how]!((sql, values) => manager.query(sql, values), event.payload.card);
  }

  @OnWebhook('awardee', 'effect')
  async later(event: WebhookEvent<Card>, { enqueue }: HandlerContext) {
    await enqueue('echo', event.payload);
  }

  @OnEffect('echo', { retry: { maxAttempts: 1 } })
  async effect({ card }: Card, { complete }: EffectContext) {
    await complete(({ manager }) => manager.query('SELECT $1::text::int', [card]));
  }
}

describe('what a payload holds', () => {
  let database: TestDatabase;
  let app: INestApplication;
  const told: string[] = [];
  const alerts: Alert[] = [];
  const tell = (line: unknown) => void told.push(String(line));

  beforeAll(async () => {
    database = await createDatabase();
    await database.query('CREATE TABLE canary_card (card text PRIMARY KEY, amount int CHECK (amount > 0))');
    await database.query(
      `CREATE FUNCTION canary_raise(card text, code text DEFAULT 'P0001') RETURNS void LANGUAGE plpgsql AS
       $$ BEGIN RAISE EXCEPTION 'no such card % ', card USING ERRCODE = code, DETAIL = card, HINT = card; END $$`,
    );
    app = await createApplication({
      databaseUrl: database.url,
      webhooks: { sources: deskSources, onAlert: (alert) => void alerts.push(alert) },
      providers: [Echoing],
      configure: (one) => one.useLogger({ log: tell, warn: tell, error: tell, debug: tell, verbose: tell }),
    });
  });
  afterAll(async () => {
    await app?.close();
    await database?.drop();
  });

  it('stands in body, headers and payload alone, whatever repeats it', async () => {
    const hows = Object.keys(ECHOES);
    const canaries = [...hows, 'effect', 'forged'].map((_, n) => `canary${n}x4242`);
    const send = async (id: string, type: string, payload: object, card: string, forged = false) => {
      const { headers, body } = awardee(id, type, payload);
      const signature = forged ? { 'X-Awardee-Signature': `sha256=${card}` } : {};
      const secret = {
        authorization: `Bearer ${card}`,
        cookie: card,
        'x-other': card,
        ...(forged ? { 'content-encoding': card, 'content-type': `text/plain; charset=${card}` } : {}),
      };
      await app
        .get(Inbox)
        .receive('awardee', { headers: { ...headers, ...secret, ...signature }, rawBody: body });
    };
    for (const [n, how] of hows.entries())
      await send(`e${n}`, 'echo', { how, card: canaries[n] }, canaries[n]!);
    await send('effect', 'effect', { card: canaries.at(-2) }, canaries.at(-2)!);
    await send('forged', 'effect', { card: canaries.at(-1) }, canaries.at(-1)!, true);
    await until(async () => {
      const [row] = await database.query<{ dead: number }>(
        `SELECT count(*)::int AS dead FROM webhook_outbox WHERE state = 'dead'`,
      );
      return row!.dead === hows.length + 1;
    });
    await app.get(DeskKeeper).round();

    const stored = await everythingStored(database);
    expect(stored).toContain('SQLSTATE 22P02');
    const leaks = { log: told.join('\n'), alerts: JSON.stringify(alerts), stored };
    expect(alerts.length).toBeGreaterThanOrEqual(hows.length);
    for (const [where, text] of Object.entries(leaks))
      expect([where, canaries.filter((canary) => text.includes(canary))]).toEqual([where, []]);
  });
});

/** Every row of our tables, but for the columns that hold content. */
async function everythingStored(database: TestDatabase): Promise<string> {
  const tables = await database.query<{ name: string }>(
    `SELECT c.relname AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p') AND c.relname LIKE 'webhook%'`,
  );
  const texts = await Promise.all(
    tables.map(async ({ name }) => {
      const rows = await database.query<{ row: string }>(
        `SELECT (to_jsonb(t) - ARRAY['body', 'headers', 'payload', 'bytes'])::text AS row FROM "${name}" t`,
      );
      return rows.map(({ row }) => row).join('\n');
    }),
  );
  return texts.join('\n');
}
