// golevelup's Stripe module in front of the articles' writes.
import 'reflect-metadata';
import type { AddressInfo } from 'node:net';
import { StripeModule, StripeWebhookHandler } from '@golevelup/nestjs-stripe';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { serve } from '../support/program.js';
import { STRIPE_SECRET } from '../support/signed.js';

@Injectable()
class Articles {
  constructor(private readonly dataSource: DataSource) {}

  @StripeWebhookHandler('invoice.paid')
  async receive(event: { readonly id: string; readonly type: string }) {
    await this.dataSource.transaction(async (manager) => {
      const claimed: unknown[] = await manager.query(
        `INSERT INTO processed_event (event_id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING event_id`,
        [event.id],
      );
      if (claimed.length === 0) return;
      await manager.query(`INSERT INTO outbox_message (event_id, kind, payload) VALUES ($1, $2, $3)`, [
        event.id,
        event.type,
        JSON.stringify(event),
      ]);
    });
  }
}

await serve(async ({ databaseUrl }: { databaseUrl: string }) => {
  @Module({
    imports: [
      TypeOrmModule.forRoot({ type: 'postgres', url: databaseUrl, poolSize: 10 }),
      StripeModule.forRoot({
        apiKey: 'sk_test_bench',
        webhookConfig: { stripeSecrets: { account: STRIPE_SECRET }, requestBodyProperty: 'rawBody' },
      }),
    ],
    providers: [Articles],
  })
  class Golevelup {}
  const app = await NestFactory.create(Golevelup, new ExpressAdapter(), {
    rawBody: true,
    logger: ['error', 'warn'],
  });
  await app.listen(0, '127.0.0.1');
  const { port } = (app.getHttpServer() as { address(): AddressInfo }).address();
  return { ready: { port }, run: async () => undefined, stop: () => app.close() };
});
