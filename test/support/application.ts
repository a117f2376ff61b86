import type { AddressInfo } from 'node:net';
import type { DynamicModule, INestApplication, Provider, Type } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { Test, type TestingModuleBuilder } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { WebhooksModule, type WebhooksModuleExtras } from '../../src/index.js';
import type { WebhooksOptions } from '../../src/core/options/options.js';
import type { RelayLoop } from '../../src/outbox/relay/relay.loop.js';
import { options as dataSourceOptions } from './database.js';

export type Adapter = 'express' | 'fastify';
export const ADAPTERS: readonly Adapter[] = ['express', 'fastify'];

export interface ApplicationSetup {
  readonly adapter?: Adapter;
  /** Options of Fastify's adapter. */
  readonly fastify?: ConstructorParameters<typeof FastifyAdapter>[0];
  readonly databaseUrl: string;
  readonly poolSize?: number;
  readonly entities?: readonly Type[];
  /** More options of its DataSource. */
  readonly dataSource?: { readonly schema?: string; readonly extra?: object; readonly synchronize?: boolean };
  readonly webhooks: WebhooksOptions & WebhooksModuleExtras;
  readonly providers?: readonly Provider[];
  readonly controllers?: readonly Type[];
  readonly imports?: readonly (Type | DynamicModule)[];
  /** Called before init: global prefix, versioning, filters. */
  readonly configure?: (app: INestApplication) => void;
  readonly override?: (builder: TestingModuleBuilder) => TestingModuleBuilder;
}

/** `CLAIMS=typeorm`: a whole run of tests has its claims in TypeORM's transactions, as `npm run test:claims` has. */
function claimsMode(): Pick<WebhooksOptions, 'claims'> {
  const { CLAIMS: claims } = process.env;
  return claims === 'typeorm' || claims === 'message' ? { claims } : {};
}

/** `HAND_OFF=off`: a whole run of tests leases every row, as `npm run test:long` does once for specs with a running relay. */
function leasedOnly(relay: WebhooksOptions['relay']): Pick<WebhooksOptions, 'relay'> {
  if (process.env.HAND_OFF !== 'off' || relay === false) return {};
  return { relay: { handOff: false, ...relay } };
}

/** A Nest application around the module, on a real adapter; call `listen` for HTTP. */
export async function createApplication(setup: ApplicationSetup): Promise<INestApplication> {
  const builder = Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({
        ...dataSourceOptions(setup.databaseUrl, setup.poolSize),
        entities: [...(setup.entities ?? [])],
        retryAttempts: 0,
        ...setup.dataSource,
      }),
      ScheduleModule.forRoot(),
      WebhooksModule.forRoot({ ...claimsMode(), ...setup.webhooks, ...leasedOnly(setup.webhooks.relay) }),
      ...(setup.imports ?? []),
    ],
    providers: [...(setup.providers ?? [])],
    controllers: [...(setup.controllers ?? [])],
  });
  const moduleRef = await (setup.override?.(builder) ?? builder).compile();
  const adapter =
    setup.adapter === 'fastify' ? new FastifyAdapter(setup.fastify as never) : new ExpressAdapter();
  const app = moduleRef.createNestApplication(adapter as never, {
    logger: process.env.LOG === '1' ? undefined : false,
  });
  setup.configure?.(app);
  try {
    await app.init();
  } catch (error) {
    // A boot that is refused must not leave the pool open behind it.
    await app.close();
    throw error;
  }
  return app;
}

/** Starts to listen on a free loopback port and returns the origin. */
export async function listen(app: INestApplication): Promise<string> {
  await app.listen(0, '127.0.0.1');
  const { port } = (app.getHttpServer() as { address(): AddressInfo }).address();
  return `http://127.0.0.1:${port}`;
}

/** Waits until `check` gives something other than undefined or false; fails after `ms`. */
export async function until<T>(
  check: () => Promise<T | undefined | false> | T | undefined | false,
  ms = 20_000,
): Promise<T> {
  const end = Date.now() + ms;
  for (;;) {
    const value = await check();
    if (value !== undefined && value !== false) return value;
    if (Date.now() > end)
      throw new Error(`condition not met within ${ms} ms: ${check.toString().slice(0, 200)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** Replaces the relay's loop where a test makes its own rounds. Hand-off needs a running loop, so it is off there: rows wait for a round. */
export const IDLE_LOOP: Pick<RelayLoop, 'start' | 'stopLeasing' | 'finish' | 'isRunning'> = {
  start: () => undefined,
  stopLeasing: () => undefined,
  finish: async () => undefined,
  isRunning: false,
};
