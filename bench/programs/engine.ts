// A relay that hands effects to an engine, or runs them itself; and the engine's consumer. Each in a process of its own.
import 'reflect-metadata';
import { Injectable, Module, type INestApplicationContext, type Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import {
  EffectConsumerModule,
  hmac,
  OnEffect,
  WebhooksModule,
  type EffectTransport,
} from '../../src/index.js';
import { WakeUp } from '../../src/outbox/wake/wake-up.js';
import { bullmq } from '../../src/transports/bullmq/index.js';
import { nats } from '../../src/transports/nats/index.js';
import { rabbitmq } from '../../src/transports/rabbitmq/index.js';
import { serve } from '../support/program.js';
import { SECRET } from '../support/signed.js';

export type EngineName = 'bullmq' | 'nats' | 'rabbitmq';

export interface EngineSettings {
  readonly role: 'relay' | 'consumer';
  /** For a consumer without one, undefined. */
  readonly databaseUrl?: string;
  /** Of a relay without one: it runs the effects itself. */
  readonly engine?: { readonly name: EngineName; readonly url: string };
}

const POOL = 20;
/** As many as a consumer with this pool runs by default. */
const AT_ONCE = POOL - 2;

@Injectable()
class Works {
  @OnEffect('nothing')
  async nothing() {}
}

function transportOf({ name, url }: NonNullable<EngineSettings['engine']>): EffectTransport {
  const { hostname: host, port } = new URL(url);
  if (name === 'nats') return nats({ connection: { servers: url } });
  if (name === 'rabbitmq') return rabbitmq({ connection: url });
  return bullmq({ connection: { host, port: Number(port) } });
}

function database(url: string) {
  return TypeOrmModule.forRoot({ type: 'postgres', url, poolSize: POOL });
}

function relayOf({ databaseUrl, engine }: EngineSettings): Type {
  @Module({
    imports: [
      database(databaseUrl!),
      ScheduleModule.forRoot(),
      WebhooksModule.forRoot({
        sources: {
          one: hmac({ secrets: [SECRET], signatureHeader: 'x-signature', idPath: 'id', typePath: 'type' }),
        },
        transports: engine && [{ transport: transportOf(engine), effects: ['nothing'] }],
        relay: { effects: AT_ONCE },
        reconcile: false,
        retention: false,
      }),
    ],
    providers: [Works],
  })
  class Relay {}
  return Relay;
}

function consumerOf({ databaseUrl, engine }: EngineSettings): Type {
  const transport = transportOf(engine!);
  @Module({
    imports:
      databaseUrl === undefined
        ? [EffectConsumerModule.forRoot({ transport, concurrency: AT_ONCE, dataSource: false })]
        : [database(databaseUrl), EffectConsumerModule.forRoot({ transport, concurrency: AT_ONCE })],
    providers: [Works],
  })
  class Consumer {}
  return Consumer;
}

const FILL = `
  WITH job AS (
    SELECT (rpad(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0'), 12, '0') ||
            '8000' || substr(md5($2 || g), 1, 16))::uuid AS id FROM generate_series(1, $1::int) g
  ), data AS (
    INSERT INTO webhook_outbox_data (outbox_id, payload) SELECT id, '{"n":1}' FROM job
  )
  INSERT INTO webhook_outbox (id, kind, name) SELECT id, 'effect', 'nothing' FROM job`;
// Each by its index: a table that is read from end to end beside the work would be measured too.
const LEFT = `
  (SELECT FROM webhook_outbox WHERE state = 'pending' AND NOT waits AND NOT alone LIMIT 1)
  UNION ALL (SELECT FROM webhook_outbox WHERE state = 'handed' ORDER BY due_at LIMIT 1)`;

/** From the wake to the last settled row: with an engine, the last report. Returns the seconds. */
async function drain(app: INestApplicationContext, jobs: number, nth: number): Promise<number> {
  const dataSource = app.get(DataSource);
  await dataSource.query(FILL, [jobs, `b${nth}`]);
  const startedAt = performance.now();
  app.get(WakeUp).wake();
  for (let left = 1; left > 0; left = (await dataSource.query<unknown[]>(LEFT)).length)
    await new Promise((resolve) => setTimeout(resolve, 20));
  return (performance.now() - startedAt) / 1_000;
}

await serve(async (settings: EngineSettings) => {
  const type = settings.role === 'relay' ? relayOf(settings) : consumerOf(settings);
  const app = await NestFactory.createApplicationContext(type, { logger: ['error', 'warn'] });
  let nth = 0;
  return {
    ready: {},
    run: async (order) => drain(app, (order as { readonly jobs: number }).jobs, (nth += 1)),
    stop: () => app.close(),
  };
});
