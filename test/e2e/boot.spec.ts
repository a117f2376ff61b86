import { Controller, Inject, Injectable, Module, Scope, type DynamicModule, type Type } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import {
  OnEffect,
  OnWebhook,
  Outbox,
  WebhooksModule,
  type HandlerContext,
  type WebhookEvent,
} from '../../src/index.js';
import type { WebhooksOptions } from '../../src/index.js';
import { ADAPTERS, createApplication } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { startHost, type Host } from '../support/host.js';
import { send } from '../support/http.js';
import { answered, OK, Receiver, UNAVAILABLE } from '../support/receiver.js';
import { awardee } from '../support/signing.js';
import { awardeeSource } from '../support/sources.js';

describe.each(ADAPTERS)('boot on %s', (adapter) => {
  let database: TestDatabase;
  beforeAll(async () => {
    database = await createDatabase();
  });
  afterAll(() => database?.drop());

  const start = async (host: Partial<Host> = {}, options: Partial<WebhooksOptions> = {}) => {
    const webhooks = WebhooksModule.forRoot({ sources: { awardee: awardeeSource() }, ...options });
    const { app } = await startHost(adapter, { databaseUrl: database.url, webhooks, ...host });
    await app.close();
  };
  const startWith = (...providers: Type[]) => start({ providers });

  it('starts with nothing to handle', async () => {
    await start({});
  });

  it('asks for ScheduleModule where it is missing, and says why it does not bring its own', async () => {
    await expect(start({ schedule: false })).rejects.toThrow(
      /needs the application's scheduler: expected ScheduleModule\.forRoot\(\).*found none/,
    );
  });

  it.each([
    [
      undefined,
      /expected TypeOrmModule\.forRoot\(\{ type: 'postgres', … \}\).*found none\. Give the name of a named one/,
    ],
    [
      'second',
      /expected TypeOrmModule\.forRoot\(\{ name: 'second', type: 'postgres', … \}\).*found none of that name/,
    ],
  ])('asks for a DataSource (name: %s) where none is', async (dataSource, message) => {
    const webhooks = WebhooksModule.forRoot({ sources: { awardee: awardeeSource() }, dataSource });
    const typeOrm = dataSource !== undefined;
    await expect(start({ webhooks, typeOrm, manualInitialization: true })).rejects.toThrow(message);
  });

  it('refuses a cron expression that is none', async () => {
    await expect(start({}, { retention: { schedule: 'every night' } })).rejects.toThrow(
      /expected a cron expression, received 'every night'/,
    );
  });

  describe('imported more than once', () => {
    const again = (...sources: string[]) =>
      WebhooksModule.forRoot({
        sources: Object.fromEntries(sources.map((name) => [name, awardeeSource()])),
        controller: { path: 'again' },
      });
    const billing = (webhooks: DynamicModule | Type): Type => {
      @Injectable()
      class Billing {
        @OnWebhook('other', '*')
        paid() {}
      }
      @Module({ imports: [webhooks], providers: [Billing] })
      class BillingModule {}
      return BillingModule;
    };

    it.each([
      ['with the same sources', again('awardee'), "one with 'awardee' and one with 'awardee'"],
      ['with others', again('other', 'third'), "one with 'awardee' and one with 'other', 'third'"],
      [
        'by a factory',
        WebhooksModule.forRootAsync({
          useFactory: async () => ({ sources: { other: awardeeSource() } }),
          controller: false,
        }),
        "one with 'awardee' and one with 'other'",
      ],
      ['without options', WebhooksModule, "one with 'awardee' and one without forRoot"],
    ])('%s it says so, before anything else', async (_, webhooks, received) => {
      await expect(start({ imports: [billing(webhooks)] })).rejects.toMatchObject({
        code: 'CONFIGURATION',
        message: expect.stringMatching(
          new RegExp(
            `^WebhooksModule is imported more than once: expected once in an application.*in the root module.*; received ${received}\\. .*providers$`,
          ),
        ),
      });
    });

    it('the same module in two places is one, and two applications are nothing to each other', async () => {
      const webhooks = again('awardee', 'other');
      const host = { webhooks, imports: [billing(webhooks)] };
      await Promise.all([start(host), start(host), start()]);
    });
  });

  describe('refuses a handler', () => {
    it('of a source that is not configured, naming the nearest', async () => {
      @Injectable()
      class Billing {
        @OnWebhook('awarde', '*')
        paid() {}
      }
      await expect(startWith(Billing)).rejects.toThrow(
        "Billing.paid @OnWebhook('awarde'): no source 'awarde' is configured; did you mean 'awardee'?",
      );
    });

    it('of a source like none that is configured, and names those that are', async () => {
      @Injectable()
      class Billing {
        @OnWebhook('billing', '*')
        paid() {}
      }
      await expect(startWith(Billing)).rejects.toThrow("no source 'billing' is configured; known: awardee");
    });

    it('whose name another one has', async () => {
      @Injectable()
      class Twice {
        @OnWebhook('awardee', 'a', { name: 'paid' })
        one() {}

        @OnWebhook('awardee', 'b', { name: 'paid' })
        two() {}
      }
      await expect(startWith(Twice)).rejects.toThrow(
        /^'awardee\/paid' is registered twice: Twice\.one @OnWebhook\('awardee'\) in AppModule and Twice\.two @OnWebhook\('awardee'\) in AppModule\..*rename one of them$/,
      );
    });

    it('whose former name another one has', async () => {
      @Injectable()
      class Renamed {
        @OnWebhook('awardee', 'a', { name: 'paid' })
        one() {}

        @OnWebhook('awardee', 'b', { name: 'settled', was: ['paid'] })
        two() {}
      }
      await expect(startWith(Renamed)).rejects.toThrow(
        "'awardee/paid' is registered twice: Renamed.one @OnWebhook('awardee') in AppModule and Renamed.two",
      );
    });

    it('whose former name is its own', async () => {
      @Injectable()
      class Renamed {
        @OnWebhook('awardee', 'a', { name: 'paid', was: ['paid'] })
        one() {}
      }
      await expect(startWith(Renamed)).rejects.toThrow(
        "Renamed.one @OnWebhook('awardee'): expected former names in `was`, each once, received 'awardee/paid' twice",
      );
    });

    it('in a class that two modules provide: each event would be handled twice', async () => {
      @Injectable()
      class Shared {
        @OnWebhook('awardee', '*')
        handle() {}
      }
      @Module({ providers: [Shared] })
      class One {}
      @Module({ providers: [Shared] })
      class Two {}
      await expect(start({ imports: [One, Two] })).rejects.toThrow(
        "'awardee/Shared.handle' is registered twice: Shared.handle @OnWebhook('awardee') in One and " +
          "Shared.handle @OnWebhook('awardee') in Two. Provide the class in one module only, and export it there",
      );
    });

    it('of a class that has the name of another class', async () => {
      const billing = (): Type => {
        @Injectable()
        class Billing {
          @OnWebhook('awardee', '*')
          handle() {}
        }
        return Billing;
      };
      await expect(startWith(billing(), billing())).rejects.toThrow(
        /Billing\.handle @OnWebhook\('awardee'\) in AppModule\. Names of handlers.*rename one of them$/,
      );
    });

    it('in a request-scoped class, or one that injects such a one', async () => {
      @Injectable({ scope: Scope.REQUEST })
      class Scoped {
        @OnWebhook('awardee', '*')
        handle() {}
      }
      @Injectable()
      class Injecting {
        constructor(@Inject(REQUEST) readonly request: unknown) {}

        @OnWebhook('awardee', '*')
        handle() {}
      }
      await expect(startWith(Scoped)).rejects.toThrow(
        /Scoped\.handle is in a request-scoped class.*singletons/,
      );
      await expect(startWith(Injecting)).rejects.toThrow(/Injecting\.handle is in a request-scoped class/);
    });

    it.each([
      [
        'with an option that is none',
        { retires: {} },
        /Wrong\.handle @OnWebhook\('awardee'\): unknown option 'retires'; did you mean 'retry'\?/,
      ],
      [
        'with attempts of none',
        { retry: { maxAttempts: 0 } },
        /Wrong\.handle @OnWebhook\('awardee'\)\.retry\.maxAttempts: expected number to be >0, received 0/,
      ],
      [
        'with a time-out in words',
        { timeout: 'soon' },
        /\.timeout: expected milliseconds or text.*received 'soon'/,
      ],
      [
        'inline, with more time than the answer has',
        { inline: true, timeout: '1m' },
        /expected a timeout of at most the source's ackTimeout \(8000 ms\), received 60000 ms/,
      ],
    ])('%s', async (_, options, message) => {
      @Injectable()
      class Wrong {
        @OnWebhook('awardee', '*', options as never)
        handle() {}
      }
      await expect(startWith(Wrong)).rejects.toThrow(message);
    });

    it.each([
      [[], 'an empty list'],
      ['', "''"],
      ['a.*.b.*', "'a.*.b.*'"],
    ])('of the types %j', async (types, received) => {
      @Injectable()
      class Wrong {
        @OnWebhook('awardee', types)
        handle() {}
      }
      await expect(startWith(Wrong)).rejects.toThrow(
        `Wrong.handle @OnWebhook('awardee'): expected event types with one '*' at most, received ${received}`,
      );
    });
  });

  describe('refuses an effect', () => {
    it('whose name another one has', async () => {
      @Injectable()
      class Twice {
        @OnEffect('mail')
        one() {}

        @OnEffect('mail')
        two() {}
      }
      await expect(startWith(Twice)).rejects.toThrow(
        "'mail' is registered twice: Twice.one @OnEffect('mail') in AppModule and Twice.two @OnEffect('mail') in AppModule. ",
      );
    });

    it.each(['', 'send mail', 'x'.repeat(121)])('of the name %j', async (name) => {
      @Injectable()
      class Wrong {
        @OnEffect(name)
        effect() {}
      }
      await expect(startWith(Wrong)).rejects.toThrow(
        `expected a name of letters, digits, '.', '_' and '-' (1 to 120), received '${name}'`,
      );
    });
  });

  it('finds handlers on controllers too, and several on one method', async () => {
    @Controller()
    class Both {
      @OnWebhook('awardee', 'a')
      @OnEffect('mail')
      handle() {}
    }
    await start({ controllers: [Both] });
  });
});

describe.each(ADAPTERS)('an effect that nobody carries out, on %s', (adapter) => {
  @Injectable()
  class Misspelt {
    constructor(
      readonly outbox: Outbox,
      readonly dataSource: DataSource,
    ) {}

    @OnWebhook('awardee', '*')
    async handle(_: WebhookEvent, { enqueue }: HandlerContext) {
      await enqueue('send-recipt', {});
    }

    @OnEffect('send-receipt')
    async sendReceipt() {}
  }
  const MESSAGE = "No method has @OnEffect('send-recipt'); did you mean 'send-receipt'?";

  it('throws at enqueue with the nearest name; in a handler that is a dead letter at once', async () => {
    const receiver = await Receiver.start({
      adapter,
      providers: [Misspelt],
      webhooks: { sources: { awardee: awardeeSource() } },
    });
    const { outbox, dataSource } = receiver.app.get(Misspelt);
    await expect(
      outbox.enqueue(dataSource.manager, 'send-recipt', {}, { outsideTransaction: true }),
    ).rejects.toMatchObject({
      code: 'UNKNOWN_EFFECT',
      message: MESSAGE,
    });
    expect(await receiver.deliver('awardee', awardee('misspelt', 't', '{}'))).toBe(OK);
    await receiver.drain();
    expect(await receiver.rows('misspelt')).toMatchObject([
      { state: 'dead', reason: 'permanent-error', error: expect.stringContaining(MESSAGE) },
    ]);
    await receiver.stop();
  });
});

describe.each(ADAPTERS)('a database that is not there yet, on %s', (adapter) => {
  it('stops no boot: deliveries are answered 503 until it is', async () => {
    const database = await createDatabase();
    const webhooks = WebhooksModule.forRoot({ sources: { awardee: awardeeSource() } });
    const host = { databaseUrl: database.url, webhooks, manualInitialization: true };
    const { app, origin } = await startHost(adapter, host);
    const deliver = async () =>
      answered(await send(origin, { path: '/webhooks/awardee', ...awardee('early', 't', '{}') }));
    expect(await deliver()).toBe(UNAVAILABLE);
    await app.get(DataSource).initialize();
    expect(await deliver()).toBe(OK);
    await app.close();
    await database.drop();
  });
});

describe('a DataSource that is not of PostgreSQL', () => {
  it.each(['cockroachdb', 'aurora-postgres', 'mysql', 'mssql', 'mongodb', 'better-sqlite3'])(
    '%s stops the boot, before anything connects',
    async (type) => {
      // TypeORM loads the driver of most of these at once, and they are not installed: all that matters here is the type.
      const dataSource = new DataSource({ type: 'postgres', url: 'postgres://127.0.0.1:1/none' });
      Object.assign(dataSource.options, { type });
      const boot = createApplication({
        databaseUrl: 'postgres://127.0.0.1:1/none',
        webhooks: { sources: { awardee: awardeeSource() } },
        override: (builder) => builder.overrideProvider(DataSource).useValue(dataSource),
      });
      await expect(boot).rejects.toThrow(
        `needs a DataSource of PostgreSQL: expected type: 'postgres', received type: '${type}'`,
      );
    },
  );

  it('CockroachDB’s, with its own driver, stops the boot too', async () => {
    const module = WebhooksModule.forRoot({ sources: { awardee: awardeeSource() } });
    const other = TypeOrmModule.forRoot({
      type: 'cockroachdb',
      url: 'postgres://127.0.0.1:1/none',
      timeTravelQueries: false,
      manualInitialization: true,
    });
    const boot = Test.createTestingModule({ imports: [other, ScheduleModule.forRoot(), module] }).compile();
    await expect(boot).rejects.toThrow(
      /received type: 'cockroachdb'.*WebhooksModule\.forRoot\(\{ dataSource/,
    );
  });
});
