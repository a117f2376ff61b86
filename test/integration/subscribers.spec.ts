import { Controller, Injectable, Post } from '@nestjs/common';
import type { DataSource, EntityManager, EntitySubscriberInterface, Logger, QueryRunner } from 'typeorm';
import type { ClaimsMode } from '../../src/core/options/options.js';
import { WEBHOOKS_DATA_SOURCE } from '../../src/core/tokens.js';
import { HostTransaction } from '../../src/storage/postgres/host-transaction.js';
import {
  OnEffect,
  OnWebhook,
  Outbox,
  TxManager,
  UseWebhook,
  type BatchContext,
  type BatchEvent,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import { listen } from '../support/application.js';
import { awardee } from '../support/signing.js';
import { awardeeSource, clear, startInbox, type TestInbox } from './support/inbox.js';
import { expectNoLeak, poolOf } from './support/pool.js';

const HOOKS = [
  'beforeTransactionStart',
  'afterTransactionStart',
  'beforeTransactionCommit',
  'afterTransactionCommit',
  'beforeTransactionRollback',
  'afterTransactionRollback',
] as const;
type Hook = (typeof HOOKS)[number];
type Act = (runner: QueryRunner) => unknown;

/** The hooks that were called, and what they do, while a test looks. */
let trace: string[] | undefined;
let acts: Partial<Record<Hook, Act>> = {};

const subscriber: EntitySubscriberInterface = {};
for (const hook of HOOKS) {
  subscriber[hook] = async ({ queryRunner }) => {
    if (trace === undefined) return;
    const { isTransactionActive } = queryRunner as { isTransactionActive: boolean };
    trace.push(`${hook}, ${isTransactionActive ? 'in a transaction' : 'in none'}`);
    const { [hook]: act } = acts;
    // What a hook begins by itself calls it again.
    if (act === undefined) return;
    acts = {};
    try {
      await act(queryRunner);
    } finally {
      acts = { [hook]: act };
    }
  };
}

/** What user code does in each place. */
type Code = (manager: EntityManager) => unknown;
let code: Code = () => undefined;
const run = (manager: EntityManager) => code(manager);

@Injectable()
class Work {
  @OnWebhook('awardee', '*', { name: 'handle', retry: { maxAttempts: 1 } })
  handle(_: WebhookEvent, { manager }: HandlerContext) {
    return run(manager);
  }

  @OnWebhook('batched', '*', { name: 'batch', batch: 5, retry: { maxAttempts: 1 } })
  batch(_: readonly BatchEvent[], { manager }: BatchContext) {
    return run(manager);
  }

  @OnWebhook('inline', '*', { name: 'inline', inline: true, retry: { maxAttempts: 1 } })
  inline(_: WebhookEvent, { manager }: HandlerContext) {
    return run(manager);
  }

  @OnEffect('mail', { retry: { maxAttempts: 1 } })
  async mail(_: unknown, { complete }: EffectContext) {
    await complete(({ manager }) => run(manager));
  }
}

@Controller()
class Route {
  @Post('route')
  @UseWebhook('route')
  route(@TxManager() manager: EntityManager) {
    return run(manager);
  }
}

let inbox: TestInbox;
let origin: string;
let ids = 0;

const post = async () => {
  const { headers, body } = awardee(`${(ids += 1)}`, 'grant.made', {});
  await fetch(`${origin}/route`, { method: 'POST', headers, body });
};
const mail = () =>
  inbox.app.get(Outbox).enqueue(inbox.database.dataSource.manager, 'mail', {}, { outsideTransaction: true });

/** How each place gets work, and then does it. */
const PLACES: Record<string, { give?: () => Promise<unknown>; work: () => Promise<unknown> }> = {
  handler: { give: () => inbox.deliver(`${(ids += 1)}`), work: () => inbox.relay.tick() },
  batch: { give: () => inbox.deliverTo('batched', `${(ids += 1)}`), work: () => inbox.relay.tick() },
  complete: { give: mail, work: () => inbox.relay.tick() },
  inline: { work: () => inbox.deliverTo('inline', `${(ids += 1)}`) },
  route: { work: post },
};

/** What a transaction has left behind. */
async function observe(work: () => Promise<unknown>) {
  await inbox.query('TRUNCATE written');
  trace = [];
  await work();
  const seen = trace;
  trace = undefined;
  const rows = await inbox.query<{ what: string }>('SELECT what FROM written ORDER BY what');
  return { trace: seen, written: rows.map(({ what }) => what) };
}

const write = (what: string) => (target: { query(sql: string, values: unknown[]): Promise<unknown> }) =>
  target.query(`INSERT INTO written VALUES ($1 || coalesce(current_setting('app.tenant', true), ''))`, [
    what,
  ]);

const BEHAVIOURS: Record<string, (hook: Hook) => Act> = {
  'sets a setting': () => (runner) => runner.query(`SELECT set_config('app.tenant', 'acme', true)`),
  writes: (hook) => write(hook),
  'writes twice at once': (hook) => (runner) =>
    Promise.all([write(hook)(runner), write(`${hook} again`)(runner)]),
  'writes by a transaction of its manager': (hook) => (runner) => runner.manager.transaction(write(hook)),
  throws: (hook) => () => {
    throw new Error(`${hook} threw`);
  },
};

beforeAll(async () => {
  inbox = await startInbox({
    providers: [Work],
    controllers: [Route],
    poolSize: 4,
    // Claims have no part in it.
    webhooks: {
      claims: 'message',
      sources: {
        awardee: awardeeSource(),
        batched: awardeeSource(),
        inline: awardeeSource(),
        route: awardeeSource(),
      },
    },
  });
  inbox.dataSource.subscribers.push(subscriber);
  origin = await listen(inbox.app);
  await inbox.query('CREATE TABLE written (what text)');
});
afterAll(() => inbox.stop());
afterEach(async () => {
  acts = {};
  trace = undefined;
  await clear(inbox.database);
  await expectNoLeak(poolOf(inbox.dataSource));
});

const ENDS: Record<string, Code> = {
  'that is committed': write('code'),
  'that is rolled back': async (manager) => {
    await write('code')(manager);
    throw new Error('rolled back');
  },
};

describe.each(Object.entries(ENDS))(
  'in a transaction %s, as in one of dataSource.transaction()',
  (_, end) => {
    it.each(
      HOOKS.flatMap((hook) =>
        Object.entries(BEHAVIOURS).map(([name, act]) => [hook, name, act(hook)] as const),
      ),
    )('%s %s', async (hook, _name, act) => {
      code = end;
      acts = { [hook]: act };
      const expected = await observe(() =>
        inbox.dataSource.transaction(async (manager) => void (await end(manager))).catch(() => undefined),
      );
      for (const [place, { give, work }] of Object.entries(PLACES)) {
        // Under their savepoint, what fails is recorded in the transaction, which is committed.
        if (end !== ENDS['that is committed'] && ['inline', 'route'].includes(place)) continue;
        await give?.();
        expect({ place, ...(await observe(work)) }).toEqual({ place, ...expected });
      }
    });
  },
);

it('a hook that waits for ever holds neither place nor connection, and what was committed stands', async () => {
  const hang = () => new Promise<void>(() => undefined);
  for (const hook of HOOKS.slice(0, 4)) {
    acts = { [hook]: hang };
    trace = [];
    const ended = HostTransaction.run(inbox.dataSource, undefined, 1_000, async ({ manager }) => {
      await write(hook)(manager);
      return 'done';
    });
    if (hook === 'afterTransactionCommit') expect(await ended).toBe('done');
    else await expect(ended).rejects.toMatchObject({ code: 'TIMED_OUT' });
  }
  expect(await inbox.query('SELECT what FROM written')).toEqual([{ what: 'afterTransactionCommit' }]);
});

it('a hook that swallows the error of its query fails the transaction, which TypeORM would call committed', async () => {
  code = write('code');
  acts = { beforeTransactionCommit: (runner) => runner.query('SELECT 1 / 0').catch(() => undefined) };
  await inbox.deliver('swallowed');
  expect(await observe(() => inbox.relay.tick())).toMatchObject({ written: [] });
  expect(await inbox.rows()).toMatchObject([
    { state: 'dead', error: expect.stringContaining('COMMIT was answered ROLLBACK') },
  ]);
});

describe('claims', () => {
  const seen: string[] = [];
  const logger: Logger = {
    logQuery: (query) => void seen.push(query.replaceAll(/\s+/g, ' ').slice(0, 40)),
    logQueryError: () => undefined,
    logQuerySlow: () => undefined,
    logSchemaBuild: () => undefined,
    logMigration: () => undefined,
    log: () => undefined,
  };
  const claimed = async (claims?: ClaimsMode, withHook = true) => {
    const lines: string[] = [];
    const watched = await startInbox({
      providers: [Work],
      webhooks: {
        claims,
        sources: { awardee: awardeeSource(), batched: awardeeSource(), inline: awardeeSource() },
      },
      configure: (app) => {
        app.useLogger({
          log: (line: unknown) => void lines.push(String(line)),
          warn: () => undefined,
          error: () => undefined,
        });
        const dataSource = app.get<DataSource>(WEBHOOKS_DATA_SOURCE);
        if (withHook) dataSource.subscribers.push(subscriber);
        dataSource.logger = logger;
      },
    });
    try {
      seen.length = 0;
      trace = [];
      expect(await watched.deliver('1')).toMatchObject({ status: 200 });
      expect(await watched.deliver('1')).toMatchObject({ status: 200 });
      expect(await watched.rows()).toHaveLength(1);
      return {
        hooks: trace.length,
        seen: [...seen],
        told: lines.find((line) => line.includes('claims are')),
      };
    } finally {
      await watched.stop();
    }
  };

  it.each<[ClaimsMode | undefined, boolean, boolean, string]>([
    [
      undefined,
      true,
      true,
      "in TypeORM's own transactions: the subscriber Object has beforeTransactionStart()",
    ],
    [undefined, false, false, 'in one message each: nothing of the application sees transactions or queries'],
    ['message', true, false, "in one message each: claims: 'message'"],
    ['typeorm', false, true, "in TypeORM's own transactions: claims: 'typeorm'"],
  ])('under %s, with a hook: %s, are seen: %s', async (claims, withHook, isSeen, told) => {
    const result = await claimed(claims, withHook);
    expect(result.told).toContain(told);
    // Of the claim, of the second one that is lost, and of what is done about a duplicate.
    expect(result.hooks).toBe(isSeen && withHook ? 12 : 0);
    const claim = ['START TRANSACTION', 'SET TRANSACTION ISOLATION LEVEL READ COM'];
    if (isSeen) expect(result.seen.slice(0, 2)).toEqual(claim);
    else expect(result.seen.filter((query) => query.includes('TRANSACTION'))).toEqual([]);
    expect(result.seen.filter((query) => query === 'COMMIT')).toHaveLength(isSeen ? 3 : 0);
  });
});
