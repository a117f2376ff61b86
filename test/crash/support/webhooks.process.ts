// One of two applications, each in a process of its own: one sends webhooks, the other receives them. Forked by `webhooks.spec`.
import 'reflect-metadata';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { webhookEffect } from '../../../src/effects/index.js';
import {
  OnEffect,
  OnWebhook,
  WebhooksModule,
  standardWebhooks,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../../src/index.js';
import { options } from '../../support/database.js';
import { record } from '../../support/tables.js';

const { DATABASE_URL, PORT, SECRET, TARGET = '' } = process.env as Record<string, string>;
const retry = { base: 20, cap: 200, maxAttempts: 200 };

@Injectable()
class Sender {
  @OnEffect('send-webhook', { retry, keyRetention: false, destination: () => 'the other' })
  send({ n }: { n: number }, context: EffectContext) {
    const allow = { http: true, privateAddresses: ['127.0.0.0/8'] };
    return webhookEffect({ url: TARGET, secrets: [SECRET!], type: 'made', data: { n }, allow }, context);
  }
}

@Injectable()
class Receiver {
  @OnWebhook('sender', '*', { name: 'receive', retry })
  receive(event: WebhookEvent, { manager }: HandlerContext) {
    return record(event, { manager });
  }
}

@Module({
  imports: [
    TypeOrmModule.forRoot({ ...options(DATABASE_URL!), retryAttempts: 0 }),
    ScheduleModule.forRoot(),
    WebhooksModule.forRoot({
      sources: { sender: standardWebhooks({ secrets: [SECRET!] }) },
      relay: { pollInterval: 50, lease: '1500ms' },
      reconcile: false,
      retention: false,
    }),
  ],
  providers: [TARGET === '' ? Receiver : Sender],
})
class WebhooksProcess {}

const app = await NestFactory.create(WebhooksProcess, { logger: false });
await app.listen(Number(PORT), '127.0.0.1');
process.send!('ready');
