// A process with a relay of its own, for tests of what two of them do to each other. Forked by `relayProcess`.
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
import {
  endLog,
  fails,
  line,
  logged,
  OrderedWork,
  orderedSources,
  pause,
  type Ordered,
} from './ordered.work.js';

const sink = process.env.SINK_URL!;
const retry = { base: 20, cap: 50, maxAttempts: 5 };

@Injectable()
class Work {
  @OnWebhook<Ordered & { dies?: boolean }>('awardee', 'mortal', {
    name: 'mortal',
    retry: { base: 20, cap: 50, maxAttempts: 5 },
  })
  async mortal({ payload }: WebhookEvent<Ordered & { dies?: boolean }>, { attempt }: HandlerContext) {
    await logged('mortal', payload, attempt, async () => {
      await pause(20);
      if (payload.dies === true) process.kill(process.pid, 'SIGKILL');
      await pause(30);
      if (fails(payload, attempt)) throw new Error('on purpose');
    });
  }

  /** Has no end at its first attempt. */
  @OnEffect<Ordered>('mail', { retry })
  async mail(payload: Ordered, { attempt }: EffectContext) {
    await logged('mail', payload, attempt, async () => {
      if (attempt === 1) await new Promise(() => undefined);
    });
  }

  /** Has no end, and time for it. */
  @OnEffect('hold', { retry, timeout: '1h', keyRetention: false })
  async hold() {
    await new Promise(() => undefined);
  }

  @OnEffect('pay', { inDoubt: 'park', retry: { maxAttempts: 1 } })
  async pay(payload: object, context: EffectContext) {
    await this.call(payload, context);
  }

  @OnEffect('asked', {
    retry,
    probe: async (_payload, { key }) => ((await fetch(`${sink}/${key}`)).ok ? 'done' : 'not-done'),
  })
  async asked(payload: object, context: EffectContext) {
    await this.call(payload, context);
  }

  /** Has the sink do it, and dies before that can be recorded, where the payload says so. */
  private async call(payload: { dies?: boolean }, { key, attempt }: EffectContext) {
    await fetch(`${sink}/${key}`, { method: 'POST', body: JSON.stringify({ payload, attempt }) });
    if (payload.dies === true && attempt === 1) process.kill(process.pid, 'SIGKILL');
  }
}

@Module({
  imports: [
    TypeOrmModule.forRoot({ ...options(process.env.DATABASE_URL!), retryAttempts: 0 }),
    ScheduleModule.forRoot(),
    WebhooksModule.forRoot({
      sources: orderedSources(),
      relay: {
        pollInterval: process.env.POLL ?? 50,
        lease: process.env.LEASE ?? '30s',
        effects: Number(process.env.EFFECTS ?? 20),
        listen: process.env.LISTEN_URL === undefined || { url: process.env.LISTEN_URL },
      },
      reconcile: false,
      retention: false,
    }),
  ],
  providers: [Work, OrderedWork, line(process.env.RENAMED === '1')],
})
class RelayProcess {}

const app = await NestFactory.createApplicationContext(RelayProcess, {
  logger: process.env.LOG === '1' ? undefined : false,
});
process.on('message', () => {
  void app
    .close()
    .then(endLog)
    .then(() => process.disconnect());
});
process.send!('ready');
