// A process with a relay of its own, for tests of what two of them do to each other. Forked by `relayProcess`.
import 'reflect-metadata';
import { createHash } from 'node:crypto';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Pool } from 'pg';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  WebhooksModule,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../../src/index.js';
import { awardeeSource } from '../../support/sources.js';
import { options } from '../../support/database.js';

const url = process.env.DATABASE_URL!;
const sink = process.env.SINK_URL!;
/** The log is written past the transaction of the run: it must stay when the run is rolled back. */
const log = new Pool({ connectionString: url, max: 4 });

export interface Ordered {
  readonly key: string;
  readonly seq: number;
}

/** A run as the log sees it: a row at its start, completed at its end. */
async function logged(kind: string, { key, seq }: Ordered, attempt: number, work: () => Promise<void>) {
  const { rows } = await log.query<{ id: string }>(
    `INSERT INTO run_log (kind, key, seq, attempt, pid) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
    [kind, key, seq, attempt, process.pid],
  );
  let ok = false;
  try {
    await work();
    ok = true;
  } finally {
    await log.query(`UPDATE run_log SET ended_at = clock_timestamp(), ok = $2 WHERE id = $1`, [
      rows[0]!.id,
      ok,
    ]);
  }
}

/** The rows decide, not chance: some fail at their first attempt. */
function fails({ key, seq }: Ordered, attempt: number): boolean {
  return attempt === 1 && createHash('sha256').update(`${key}/${seq}`).digest()[0]! % 4 === 0;
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const retry = { base: 20, cap: 50, maxAttempts: 5 };

@Injectable()
class Work {
  @OnWebhook<Ordered>('awardee', 'ordered', { name: 'ordered', key: ({ payload }) => payload.key, retry })
  async ordered({ payload }: WebhookEvent<Ordered>, { attempt, enqueue }: HandlerContext) {
    await logged('handler', payload, attempt, async () => {
      await pause(2);
      await enqueue('ordered-effect', payload);
      if (fails(payload, attempt)) throw new Error('on purpose');
    });
  }

  @OnEffect<Ordered>('ordered-effect', { key: ({ key }) => key, retry })
  async effect(payload: Ordered, { attempt }: EffectContext) {
    await logged('effect', payload, attempt, async () => {
      await pause(2);
      if (fails({ ...payload, seq: -payload.seq }, attempt)) throw new Error('on purpose');
    });
  }

  @OnWebhook<Ordered>('awardee', 'blocking', {
    name: 'blocking',
    key: ({ payload }) => payload.key,
    onDead: 'block',
    retry,
  })
  async blocking({ payload }: WebhookEvent<Ordered>, { attempt }: HandlerContext) {
    await this.dead('blocking', payload, attempt);
  }

  @OnWebhook<Ordered>('awardee', 'releasing', { name: 'releasing', key: ({ payload }) => payload.key, retry })
  async releasing({ payload }: WebhookEvent<Ordered>, { attempt }: HandlerContext) {
    await this.dead('releasing', payload, attempt);
  }

  /** The third of each key is dead at once. */
  private dead(kind: string, payload: Ordered, attempt: number): Promise<void> {
    return logged(kind, payload, attempt, async () => {
      await pause(2);
      if (payload.seq === 3) throw new PermanentError('on purpose');
      if (fails(payload, attempt)) throw new Error('on purpose');
    });
  }

  @OnWebhook<Ordered>('awardee', 'newest', {
    name: 'newest',
    retry,
    skipStale: { key: ({ payload }) => payload.key, at: ({ payload }) => new Date(payload.seq * 1_000) },
  })
  async newest({ payload }: WebhookEvent<Ordered>, { attempt, manager }: HandlerContext) {
    await logged('newest', payload, attempt, async () => {
      await manager.query(
        `INSERT INTO received_event (source, event_id, event_type) VALUES ('newest', $1, $2)
             ON CONFLICT (source, event_id) DO UPDATE SET event_type = EXCLUDED.event_type`,
        [payload.key, String(payload.seq)],
      );
      await pause(2);
      if (fails(payload, attempt)) throw new Error('on purpose');
    });
  }

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
    TypeOrmModule.forRoot({ ...options(url), retryAttempts: 0 }),
    ScheduleModule.forRoot(),
    WebhooksModule.forRoot({
      sources: { awardee: awardeeSource() },
      relay: {
        pollInterval: 50,
        lease: process.env.LEASE ?? '30s',
        effects: Number(process.env.EFFECTS ?? 20),
      },
      reconcile: false,
      retention: false,
    }),
  ],
  providers: [Work],
})
class RelayProcess {}

const app = await NestFactory.createApplicationContext(RelayProcess, {
  logger: process.env.LOG === '1' ? undefined : false,
});
process.on('message', () => {
  void app
    .close()
    .then(() => log.end())
    .then(() => process.disconnect());
});
process.send!('ready');
