import {
  All,
  HttpCode,
  Injectable,
  type CallHandler,
  type DynamicModule,
  type ExecutionContext,
  type INestApplication,
  type Type,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type { TestingModuleBuilder } from '@nestjs/testing';
import { jest } from '@jest/globals';
import type { Express } from 'express';
import { IdempotencyInterceptor, SignatureGuard, WebhooksModule } from '../../src/index.js';
import { ADAPTERS } from '../support/application.js';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { startHost, type Main } from '../support/host.js';
import { send } from '../support/http.js';
import {
  answered,
  OK,
  Receiver,
  UNAUTHORIZED,
  UNAVAILABLE,
  type ReceiverSetup,
} from '../support/receiver.js';
import { sesmetric } from '../support/signing.js';
import { sesmetricSource } from '../support/sources.js';

const met: string[] = [];

@Injectable()
class StrictGuard extends SignatureGuard {
  override canActivate(context: ExecutionContext): Promise<boolean> {
    met.push('guard');
    return super.canActivate(context);
  }
}
@Injectable()
class NotingInterceptor extends IdempotencyInterceptor {
  override intercept(context: ExecutionContext, next: CallHandler) {
    met.push('interceptor');
    return super.intercept(context, next);
  }
}
const refusing = {
  canActivate: () => {
    met.push('guard');
    return false;
  },
};
const REFUSED = '403 {"message":"Forbidden resource","error":"Forbidden","statusCode":403}';

type Override = (builder: TestingModuleBuilder) => TestingModuleBuilder;
const overridden = (override: Override): Partial<ReceiverSetup> => ({ override });

/** Ways to put something in the place of a part, with the answer to a right delivery and what was asked. */
const WAYS: Readonly<Record<string, readonly [Partial<ReceiverSetup>, string, readonly string[]]>> = {
  nothing: [{}, OK, []],
  'overrideGuard with a value': [
    overridden((builder) => builder.overrideGuard(SignatureGuard).useValue(refusing)),
    REFUSED,
    ['guard'],
  ],
  'overrideGuard with a subclass': [
    overridden((builder) => builder.overrideGuard(SignatureGuard).useClass(StrictGuard)),
    OK,
    ['guard'],
  ],
  'overrideProvider with a subclass': [
    overridden((builder) => builder.overrideProvider(SignatureGuard).useClass(StrictGuard)),
    OK,
    ['guard'],
  ],
  'overrideProvider with a value': [
    overridden((builder) => builder.overrideProvider(SignatureGuard).useValue(refusing)),
    REFUSED,
    ['guard'],
  ],
  'a provider of a subclass': [
    { providers: [{ provide: SignatureGuard, useClass: StrictGuard }] },
    OK,
    ['guard'],
  ],
  'a provider of an alias': [
    { providers: [StrictGuard, { provide: SignatureGuard, useExisting: StrictGuard }] },
    OK,
    ['guard'],
  ],
  'overrideInterceptor with a subclass': [
    overridden((builder) => builder.overrideInterceptor(IdempotencyInterceptor).useClass(NotingInterceptor)),
    OK,
    ['interceptor'],
  ],
  'a provider of an interceptor': [
    { providers: [{ provide: IdempotencyInterceptor, useClass: NotingInterceptor }] },
    OK,
    ['interceptor'],
  ],
  both: [
    {
      providers: [
        { provide: SignatureGuard, useClass: StrictGuard },
        { provide: IdempotencyInterceptor, useClass: NotingInterceptor },
      ],
    },
    OK,
    ['guard', 'interceptor'],
  ],
};

let database: TestDatabase;
beforeAll(async () => {
  database = await createDatabase();
});
afterAll(() => database?.drop());
beforeEach(() => {
  met.length = 0;
});

let nth = 0;
const event = () => sesmetric({ id: `part-${(nth += 1)}`, type: 't' });
const during = async (setup: Partial<ReceiverSetup>, work: (receiver: Receiver) => Promise<void>) => {
  const receiver = await Receiver.start({
    database,
    relayRuns: true,
    webhooks: { sources: { sesmetric: sesmetricSource() } },
    ...setup,
  });
  try {
    await work(receiver);
  } finally {
    await receiver.stop();
  }
};

/** Adds a class in the place of the module's controller. */
function withController(extend: (type: Type<Receiving>) => Type): DynamicModule {
  const webhooks = WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } });
  return { ...webhooks, controllers: webhooks.controllers!.map((type) => extend(type as Type<Receiving>)) };
}
interface Receiving {
  receive(request: unknown, response: unknown): Promise<void>;
}

describe.each(ADAPTERS)(
  'a class that the application has put in the place of the controller on %s',
  (adapter) => {
    const answerOf = async (webhooks: DynamicModule, main: Main = {}, path = '/webhooks/sesmetric') => {
      const { app, origin } = await startHost(adapter, { databaseUrl: database.url, webhooks }, main);
      try {
        return answered(await send(origin, { path, ...event() }));
      } finally {
        await app.close();
      }
    };

    it('is asked for each request: a subclass', async () => {
      const webhooks = withController((type) => {
        class Strict extends type {
          @All(':source')
          @HttpCode(200)
          override async receive(request: unknown, response: unknown): Promise<void> {
            met.push('controller');
            await super.receive(request, response);
          }
        }
        return Strict;
      });
      expect([await answerOf(webhooks), met]).toEqual([OK, ['controller']]);
    });

    it('is asked for each request: a method of the instance', async () => {
      const instead = (app: INestApplication) => {
        const [instance] = [...app.get(ModulesContainer).values()].flatMap(({ controllers }) =>
          [...controllers.values()].map((one) => one.instance as Receiving),
        );
        instance!.receive = () => {
          met.push('controller');
          return Promise.reject(new Error('no'));
        };
      };
      const webhooks = WebhooksModule.forRoot({ sources: { sesmetric: sesmetricSource() } });
      expect([await answerOf(webhooks, { configure: instead }), met]).toEqual([UNAVAILABLE, ['controller']]);
    });
  },
);

it.each([true, false])(
  'a global prefix with a parameter, and an earlier route for one of its values, with direct: %s',
  async (direct) => {
    await during(
      {
        webhooks: { sources: { sesmetric: sesmetricSource() }, controller: { direct } },
        configure: (app) => {
          app.setGlobalPrefix('t/:tenant');
          const express = app.getHttpAdapter().getInstance() as Express;
          express.all('/t/acme/{*x}', (_, response) => void response.status(403).send('acme'));
        },
      },
      async (receiver) => {
        const answers: string[] = [];
        for (const tenant of ['acme', 'other', 'ACME', 'acme'])
          answers.push(await receiver.deliverTo(`/t/${tenant}/webhooks/sesmetric`, event()));
        expect(answers).toEqual(['403 acme', OK, '403 acme', '403 acme']);
      },
    );
  },
);

describe.each(ADAPTERS)(
  'a part that the application has put in the place of this module’s on %s',
  (adapter) => {
    it.each(Object.keys(WAYS))('is asked for each request: %s', async (name) => {
      const [setup, answer, asked] = WAYS[name]!;
      await during({ adapter, ...setup }, async (receiver) => {
        expect(await receiver.deliver('sesmetric', event())).toBe(answer);
        expect(met).toEqual(asked);
        if (answer !== OK) return;
        expect(await receiver.deliver('sesmetric', { ...event(), body: Buffer.from('{}') })).toBe(
          UNAUTHORIZED,
        );
      });
    });

    it('is asked from the moment on at which a method is replaced', async () => {
      await during({ adapter }, async (receiver) => {
        expect(await receiver.deliver('sesmetric', event())).toBe(OK);
        const spy = jest.spyOn(SignatureGuard.prototype, 'canActivate').mockResolvedValue(false);
        expect(await receiver.deliver('sesmetric', event())).toBe(REFUSED);
        spy.mockRestore();
        expect(await receiver.deliver('sesmetric', event())).toBe(OK);
      });
    });
  },
);
