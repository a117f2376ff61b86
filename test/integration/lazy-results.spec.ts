import { Readable } from 'node:stream';
import { Controller, Injectable, Post, Query, StreamableFile } from '@nestjs/common';
import { defer, EMPTY, NEVER, Observable, of, throwError, timer } from 'rxjs';
import {
  Backfills,
  BackfillSource,
  ConfigurationError,
  OnEffect,
  OnWebhook,
  UseWebhook,
  type EffectContext,
  type HandlerContext,
  type ProbeAnswer,
} from '../../src/index.js';
import { checkHandlerOptions } from '../../src/core/options/resolve-work.js';
import { lazyKind, LazyResult, outcomeOf } from '../../src/core/lazy.js';
import { listen, until } from '../support/application.js';
import { awardee } from '../support/signing.js';
import { awardeeSource, clear, scripted, startInbox, type Script, type TestInbox } from './support/inbox.js';

async function* asyncGenerator() {
  yield 1;
}
function* generator() {
  yield 1;
}
const asyncIterable = { [Symbol.asyncIterator]: asyncGenerator };
/** A query of Knex is one. */
class Thenable {
  // oxlint-disable-next-line unicorn/no-thenable
  then(resolve: (value: number) => void) {
    resolve(2);
  }
}
/** Each made anew for each call. */
const LAZY: Readonly<Record<string, (context?: HandlerContext) => unknown>> = {
  'an async generator': asyncGenerator,
  'a generator': generator,
  'an async iterable': () => asyncIterable,
  'an iterator': () => [1].values(),
  'a function': () => () => undefined,
  'an async function': () => async () => undefined,
  'a stream of Node': () => Readable.from([1]),
  'a stream of the web': () => new ReadableStream(),
  'a StreamableFile': () => new StreamableFile(Buffer.from('')),
  'a promise of a generator': async () => generator(),
  'an Observable of a generator': () => of(generator()),
  'promises in an array': () => [Promise.resolve(1), Promise.reject(new Error('nobody waits for it'))],
  'promises in an object': () => ({ sent: Promise.resolve(1) }),
  'Observables in an array': () => [of(1)],
};

/** Each way of a value takes the same function: these stand for the others. */
const SOME = Object.entries(LAZY).filter(([name]) =>
  /^an async generator|^a function|in an array$/.test(name),
);

describe('A5 the value that user code returns', () => {
  it.each(Object.entries(LAZY))('%s is refused', async (_name, make) => {
    await expect(outcomeOf(make, 'awardee/handle')).rejects.toThrow(LazyResult);
  });

  it.each<[string, unknown, unknown]>([
    ['a value', 1, 1],
    ['nothing', undefined, undefined],
    ['a Map', new Map([[1, 2]]), new Map([[1, 2]])],
    ['an array', [1, { a: 1 }], [1, { a: 1 }]],
    ['bytes', Buffer.from('a'), Buffer.from('a')],
    ['a promise', Promise.resolve(1), 1],
    ['a thenable, such as a query of Knex', new Thenable(), 2],
    ['an Observable: its last value', of(1, 2, 3), 3],
    ['an Observable without a value', EMPTY, undefined],
    ['a promise of an Observable', Promise.resolve(of(4)), 4],
    ['an Observable of an Observable', of(of(5)), 5],
    ['one of another library', { '@@observable': () => of(6) }, 6],
  ])('%s is what it stands for', async (_name, value, expected) => {
    expect(await outcomeOf(() => value, 'awardee/handle')).toEqual(expected);
  });

  it('what libraries return for a call that was made is not taken for lazy', () => {
    const legacyStream = { status: 200, pipe: () => undefined };
    const response = { status: 200, config: { transform: [() => 1] }, request: {} };
    for (const value of [legacyStream, response, new Response('{}'), new Date(), /a/, new Error('x')])
      expect(lazyKind(value)).toBeUndefined();
  });

  it('an aborted run unsubscribes', async () => {
    let subscribed = 0;
    const controller = new AbortController();
    const open = new Observable(() => {
      subscribed += 1;
      return () => (subscribed -= 1);
    });
    const ended = outcomeOf(() => open, 'awardee/handle', controller.signal);
    await until(() => subscribed === 1);
    controller.abort(new Error('time is up'));
    await expect(ended).rejects.toThrow('time is up');
    expect(subscribed).toBe(0);
    await expect(outcomeOf(() => NEVER, 'x', AbortSignal.abort(new Error('before')))).rejects.toThrow(
      'before',
    );
  });
});

describe('A5 lazy results of the application', () => {
  const script: Partial<Script> = {};
  const batch: { run?: (context: unknown) => unknown } = {};
  const options: { probe?: () => unknown; fetch?: () => unknown; key?: () => unknown; list?: () => unknown } =
    {};
  const route: { run?: () => unknown } = {};
  let inbox: TestInbox;
  let origin: string;

  @Injectable()
  class Others {
    @OnWebhook('awardee', 'batch', { batch: 5 })
    batch(_events: unknown, context: unknown) {
      return batch.run?.(context);
    }

    @OnWebhook('awardee', 'hydrated', {
      hydrate: { key: () => options.key!() as string, fetch: async () => options.fetch!() },
    })
    hydrated() {}

    @OnWebhook('awardee', 'inline', { inline: true })
    inline(event: never, context: HandlerContext) {
      return script.handle!(event, context);
    }

    @OnEffect('probed', { probe: async () => options.probe!() as ProbeAnswer, probeFirst: true })
    probed() {}

    @BackfillSource('awardee')
    list() {
      return options.list!() as never;
    }
  }

  @Controller('route')
  class Route {
    @Post()
    @UseWebhook('routed')
    handle(@Query() _query: unknown) {
      return route.run!();
    }
  }

  beforeAll(async () => {
    const Scripted = scripted(script, { handler: { retry: { base: 0 } }, effect: { retry: { base: 0 } } });
    inbox = await startInbox({
      providers: [Scripted, Others],
      controllers: [Route],
      webhooks: { sources: { awardee: awardeeSource(), routed: awardeeSource() } },
    });
    origin = await listen(inbox.app);
  });
  afterAll(() => inbox?.stop());
  beforeEach(() => {
    script.handle = undefined;
    script.effect = undefined;
  });
  afterEach(() => clear(inbox.database));

  const states = async (where: string) =>
    (await inbox.rows(where)).map(({ state, reason }) => `${state} ${reason ?? ''}`.trim());

  it('a handler’s Observable is subscribed to within its transaction, and its error is tried again', async () => {
    let tries = 0;
    script.handle = ({ eventId }, { manager }) =>
      defer(() => {
        tries += 1;
        return tries === 1
          ? throwError(() => new Error('busy'))
          : manager.query(`INSERT INTO received_event (source, event_id, event_type) VALUES ('a', $1, 'b')`, [
              eventId,
            ]);
      });
    await inbox.deliver('observed');
    await inbox.settle();
    expect(tries).toBe(2);
    expect(await states(`name = 'awardee/handle'`)).toEqual(['done']);
    expect(await inbox.query(`SELECT event_id FROM received_event`)).toEqual([{ event_id: 'observed' }]);
  });

  it('an effect’s Observable is subscribed to, and its error is tried again', async () => {
    let sent = 0;
    let tries = 0;
    script.handle = (_event, { enqueue }) => enqueue('mail', {});
    script.effect = () =>
      timer(1).pipe(
        (source) =>
          new Observable((subscriber) =>
            source.subscribe({
              complete: () => {
                tries += 1;
                if (tries < 3) subscriber.error(new Error('busy'));
                else {
                  sent += 1;
                  subscriber.next({ sent });
                  subscriber.complete();
                }
              },
            }),
          ),
      );
    await inbox.deliver('sent');
    await inbox.settle();
    expect([tries, sent]).toEqual([3, 1]);
    const [row] = await inbox.query(
      `SELECT result FROM webhook_outbox_data WHERE result IS NOT NULL AND result LIKE '%sent%'`,
    );
    expect(row).toEqual({ result: '{"sent":1}' });
  });

  describe.each(['handler', 'batch', 'inline', 'effect', 'complete', 'probe', 'fetch', 'hydrate key'])(
    '%s',
    (way) => {
      it.each(SOME)('%s is dead at once, and never done', async (_name, make) => {
        if (way === 'fetch' || way === 'hydrate key') {
          if (way === 'hydrate key' && _name.includes(' in ')) return;
          options.key = way === 'fetch' ? () => 'a' : make;
          options.fetch = way === 'fetch' ? make : () => 1;
          await inbox.deliver('1', 'hydrated');
        } else if (way === 'batch') {
          batch.run = () => make();
          await inbox.deliver('1', 'batch');
        } else if (way === 'inline') {
          script.handle = (_event, context) => make(context);
          await inbox.deliver('1', 'inline');
        } else if (way === 'handler') {
          script.handle = (_event, context) => make(context);
          await inbox.deliver('1');
        } else {
          script.handle = (_event, { enqueue }) => enqueue(way === 'probe' ? 'probed' : 'mail', {});
          options.probe = make;
          script.effect = async (_payload: unknown, { complete }: EffectContext) => {
            if (way === 'effect') return make();
            await complete(() => make());
            return 'sent';
          };
          await inbox.deliver('1');
        }
        await inbox.settle();
        const dead = await inbox.rows(`state = 'dead'`);
        expect(dead.map(({ reason }) => reason)).toContain('permanent-error');
        expect(dead[0]!.error).toMatch(/^LazyResult: .* returned an? /);
      });
    },
  );

  it('a query builder that was not executed', async () => {
    script.handle = (_event, { manager }) =>
      manager.createQueryBuilder().update('received_event').set({ event_type: 'x' });
    await inbox.deliver('1');
    await inbox.settle();
    expect(await states(`name = 'awardee/handle'`)).toEqual(['dead permanent-error']);
  });

  it.each([true, null, 'DONE', 1])('an answer of %p is none of a probe’s', async (answer) => {
    script.handle = (_event, { enqueue }) => enqueue('probed', {});
    options.probe = () => answer;
    await inbox.deliver('1');
    await inbox.settle();
    expect(await states(`name = 'probed'`)).toEqual(['dead permanent-error']);
  });

  it('an Observable is the answer of a probe, of a fetch and of a route', async () => {
    script.handle = (_event, { enqueue }) => enqueue('probed', {});
    options.probe = () => of('done');
    options.key = () => 'a';
    options.fetch = () => of('current');
    route.run = () => timer(1);
    await inbox.deliver('1');
    await inbox.deliver('2', 'hydrated');
    const { headers, body } = awardee('3', 'grant.made', {});
    expect((await fetch(`${origin}/route`, { method: 'POST', headers, body })).status).toBe(200);
    await inbox.settle();
    expect(new Set((await inbox.rows()).map(({ state }) => state))).toEqual(new Set(['done']));
  });

  it.each(SOME)('a route that returns %s is dead, and not done', async (_name, make) => {
    route.run = make;
    const { headers, body } = awardee('3', 'grant.made', {});
    await fetch(`${origin}/route`, { method: 'POST', headers, body });
    expect(await states(`name LIKE 'routed/%'`)).toEqual(['dead permanent-error']);
  });

  it.each<[string, () => unknown, number | RegExp]>([
    [
      'an async generator',
      async function* () {
        yield { body: { a: 1 }, headers: awardee('b1', 't', {}).headers };
      },
      1,
    ],
    ['a promise of an array', async () => [{ body: {}, headers: awardee('b2', 't', {}).headers }], 1],
    ['an Observable', () => of([]), /returned an Observable: expected an async iterable/],
    ['text', () => 'events', /returned no list/],
    ['nothing', () => undefined, /returned no list/],
  ])('a backfill source that returns %s', async (_name, list, expected) => {
    options.list = list;
    const run = inbox.app.get(Backfills).run('awardee', { since: new Date(Date.now() - 1_000) });
    if (typeof expected === 'number') expect(await run).toMatchObject({ seen: expected, claimed: expected });
    else await expect(run).rejects.toThrow(expected);
  });

  it('`complete` takes a function', async () => {
    script.handle = (_event, { enqueue }) => enqueue('mail', {});
    script.effect = (_payload, { complete }) => complete(Promise.resolve(1) as never);
    await inbox.deliver('1');
    await inbox.settle();
    expect(await states(`name = 'mail'`)).toEqual(['dead permanent-error']);
  });
});

describe('A5 at boot', () => {
  it.each<[string, object, RegExp]>([
    [
      'an async key',
      { key: async () => 'a' },
      /key: expected a function that answers at once, received an async function/,
    ],
    [
      'an async classifier',
      { classify: async () => 'permanent' },
      /classify: expected a function that answers at once/,
    ],
    [
      'an async skipStale',
      { skipStale: { key: async () => 'a' } },
      /skipStale.key: expected a function that answers at once/,
    ],
    [
      'an async hydrate.key',
      { hydrate: { key: async () => 'a', fetch: () => 1 } },
      /hydrate.key: expected a function that/,
    ],
    [
      'a generator that fetches',
      { hydrate: { key: () => 'a', fetch: asyncGenerator } },
      /received a generator function/,
    ],
  ])('%s is refused', (_name, options, message) => {
    expect(() => checkHandlerOptions(options, 'Odd.method')).toThrow(message);
  });

  it.each([generator, asyncGenerator])('a method that is a generator is refused', async (method) => {
    class Odd {}
    Object.defineProperty(Odd.prototype, 'method', { value: method, configurable: true });
    const descriptor = Object.getOwnPropertyDescriptor(Odd.prototype, 'method')!;
    OnWebhook('awardee', '*', { name: 'odd' })(Odd.prototype, 'method', descriptor);
    const starting = startInbox({ providers: [Odd] });
    await expect(starting).rejects.toThrow(ConfigurationError);
    await expect(starting).rejects.toThrow(/Odd\.method is a generator, whose code would never run/);
  });
});
