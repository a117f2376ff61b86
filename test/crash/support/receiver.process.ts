// A receiver in a process of its own, which ends itself where an event says so. Forked by `receiverProcess`.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  OnEffect,
  OnWebhook,
  WebhooksModule,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../../src/index.js';
import { options } from '../../support/database.js';
import { awardeeSource } from '../../support/sources.js';
import { record } from '../../support/tables.js';

const die = () => process.kill(process.pid, 'SIGKILL');

@Injectable()
class Grants {
  @OnWebhook('awardee', '*', { name: 'grant' })
  async grant(event: WebhookEvent, { manager, enqueue, attempt }: HandlerContext) {
    await record(event, { manager });
    await enqueue('print', { event: event.eventId, type: event.type });
    if (event.type === 'dies.in-handler' && attempt === 1) die();
  }

  @OnEffect('print')
  async print(payload: { type: string }, { key, attempt }: EffectContext) {
    const response = await fetch(process.env.SINK_URL!, {
      method: 'POST',
      headers: { 'idempotency-key': key },
      body: JSON.stringify(payload),
    });
    if (payload.type === 'dies.after-effect' && attempt === 1) die();
    return response.status;
  }
}

@Module({
  imports: [
    TypeOrmModule.forRoot({ ...options(process.env.DATABASE_URL!), retryAttempts: 0 }),
    ScheduleModule.forRoot(),
    WebhooksModule.forRoot({
      sources: { awardee: awardeeSource() },
      relay: process.env.RELAY === 'off' ? false : { pollInterval: 50, lease: process.env.LEASE },
      reconcile: false,
      retention: false,
    }),
  ],
  providers: [Grants],
})
class ReceiverProcess {}

const app = await NestFactory.create(ReceiverProcess, { logger: false });
await app.listen(0, '127.0.0.1');
process.on('message', () => void app.close().then(() => process.disconnect()));
process.send!(await app.getUrl());
