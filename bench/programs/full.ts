// The whole way: signed request, business record, effect, settled.
import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type EntityManager } from 'typeorm';
import { hmac, OnEffect, OnWebhook, WebhooksModule, type BatchEvent } from '../../src/index.js';
import { serve } from '../support/program.js';
import { SECRET } from '../support/signed.js';

let done = 0;

@Injectable()
class Works {
  @OnWebhook('bench', '*', { batch: 100 })
  async record(events: readonly BatchEvent[], { manager }: { readonly manager: EntityManager }) {
    await manager.query(
      `INSERT INTO business_record (source, event_id, kind) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])
         ON CONFLICT DO NOTHING`,
      [
        events.map(({ source }) => source),
        events.map(({ eventId }) => eventId),
        events.map(({ type }) => type),
      ],
    );
    await Promise.all(events.map((event) => event.enqueue('nothing', { n: 1 })));
  }

  @OnEffect('nothing')
  async nothing() {
    done += 1;
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

await serve(async ({ databaseUrl }: { databaseUrl: string }) => {
  @Module({
    imports: [
      TypeOrmModule.forRoot({ type: 'postgres', url: databaseUrl, poolSize: 10 }),
      ScheduleModule.forRoot(),
      WebhooksModule.forRoot({
        sources: {
          bench: hmac({ secrets: [SECRET], signatureHeader: 'x-signature', idPath: 'id', typePath: 'type' }),
        },
        relay: { effects: 500 },
        reconcile: false,
        retention: false,
      }),
    ],
    providers: [Works],
  })
  class Full {}
  const app = await NestFactory.create(Full, new ExpressAdapter(), { logger: ['error', 'warn'] });
  await app.listen(0, '127.0.0.1');
  const { port } = (app.getHttpServer() as { address(): AddressInfo }).address();
  let before = 0;
  return {
    ready: { port },
    /** Waits for the end of what so many requests have begun. */
    run: async (order) => {
      const { jobs } = order as { readonly jobs: number };
      while (done - before < jobs) await pause(2);
      before = done;
      for (;;) {
        const left: unknown[] = await app
          .get(DataSource)
          .query(`SELECT FROM webhook_outbox WHERE state = 'pending' LIMIT 1`);
        if (left.length === 0) return;
        await pause(2);
      }
    },
    stop: () => app.close(),
  };
});
