// Work whose runs are logged, for tests of the order in which two relay processes run it. The test's own process has it too, to know
// names and keys; it runs none of it.
import { createHash } from 'node:crypto';
import { Injectable, type Type } from '@nestjs/common';
import { Pool } from 'pg';
import {
  OnEffect,
  OnWebhook,
  PermanentError,
  type BatchContext,
  type BatchEvent,
  type EffectContext,
  type HandlerContext,
  type WebhookEvent,
} from '../../../src/index.js';
import { awardeeSource } from '../../support/sources.js';
import { record } from '../../support/tables.js';

export interface Ordered {
  readonly key: string;
  readonly seq: number;
}

let pool: Pool | undefined;
/** The log is written past the transaction of the run: it must stay when the run is rolled back. */
const log = () => (pool ??= new Pool({ connectionString: process.env.DATABASE_URL, max: 4 }));
export const endLog = () => pool?.end();

/** What the runs of relay processes leave behind. */
export const RUN_LOG = `
  CREATE TABLE run_log (
    id         bigserial   PRIMARY KEY,
    kind       text        NOT NULL,
    key        text        NOT NULL,
    seq        integer     NOT NULL,
    attempt    integer     NOT NULL,
    pid        integer     NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at   timestamptz,
    ok         boolean
  );
  CREATE TABLE mended (kind text PRIMARY KEY)`;

/** A run as the log sees it: a row at its start, completed at its end. */
export async function logged(
  kind: string,
  { key, seq }: Ordered,
  attempt: number,
  work: () => Promise<unknown>,
): Promise<void> {
  const { rows } = await log().query<{ id: string }>(
    `INSERT INTO run_log (kind, key, seq, attempt, pid) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
    [kind, key, seq, attempt, process.pid],
  );
  let ok = false;
  try {
    await work();
    ok = true;
  } finally {
    await log().query(`UPDATE run_log SET ended_at = clock_timestamp(), ok = $2 WHERE id = $1`, [
      rows[0]!.id,
      ok,
    ]);
  }
}

/** The rows decide, not chance: some fail at their first attempt. */
export function fails({ key, seq }: Ordered, attempt: number): boolean {
  return attempt === 1 && createHash('sha256').update(`${key}/${seq}`).digest()[0]! % 4 === 0;
}

/** Fails for good until the test says that the cause is gone. */
async function broken(kind: string): Promise<void> {
  const { rowCount } = await log().query(`SELECT FROM mended WHERE kind = $1`, [kind]);
  if (rowCount === 0) throw new PermanentError('not mended');
}

export const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const retry = { base: 20, cap: 50, maxAttempts: 5 };
const ofEvent = ({ payload }: WebhookEvent<Ordered>) => payload.key;
const ofPayload = ({ key }: Ordered) => key;

/** Effects of one run of `chain`. */
export const LINKS = 6;

export const orderedSources = () => ({
  awardee: awardeeSource(),
  /** One body carries several events. */
  several: awardeeSource({
    idHeader: undefined,
    typeHeader: undefined,
    eventsPath: 'events',
    idPath: 'id',
    typePath: 'type',
  }),
});

@Injectable()
export class OrderedWork {
  @OnWebhook<Ordered>('awardee', 'ordered', { name: 'ordered', key: ofEvent, retry })
  async ordered({ payload }: WebhookEvent<Ordered>, { attempt, enqueue }: HandlerContext) {
    await logged('handler', payload, attempt, async () => {
      await pause(2);
      await enqueue('ordered-effect', payload);
      if (fails(payload, attempt)) throw new Error('on purpose');
    });
  }

  @OnEffect<Ordered>('ordered-effect', { key: ofPayload, retry })
  async effect(payload: Ordered, { attempt }: EffectContext) {
    await logged('effect', payload, attempt, async () => {
      await pause(2);
      if (fails({ ...payload, seq: -payload.seq }, attempt)) throw new Error('on purpose');
    });
  }

  @OnWebhook<Ordered>('several', '*', { name: 'several', key: ofEvent })
  async several({ payload }: WebhookEvent<Ordered>, { attempt }: HandlerContext) {
    await logged('several', payload, attempt, () => pause(2));
  }

  @OnWebhook<Ordered>('awardee', 'blocking', { name: 'blocking', key: ofEvent, onDead: 'block', retry })
  async blocking({ payload }: WebhookEvent<Ordered>, { attempt }: HandlerContext) {
    await this.dead('blocking', payload, attempt);
  }

  @OnWebhook<Ordered>('awardee', 'releasing', { name: 'releasing', key: ofEvent, retry })
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
    skipStale: { key: ofEvent, at: ({ payload }) => new Date(payload.seq * 1_000) },
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

  /** Each process in an order of its own: without the rule for locks two of them would wait for each other. */
  @OnWebhook<Ordered>('awardee', 'batched', {
    name: 'batched',
    batch: 10,
    retry,
    skipStale: { key: ({ eventId }) => eventId },
  })
  async batched(events: readonly BatchEvent<Ordered>[], context: BatchContext) {
    await logged('batched', events[0]!.payload, 1, async () => {
      const backwards = process.env.RENAMED === '1';
      for (const event of backwards ? events.toReversed() : events) await record(event, context);
    });
  }

  @OnWebhook<Ordered>('awardee', 'chain', { name: 'chain', key: ofEvent })
  async chain({ payload: { key, seq } }: WebhookEvent<Ordered>, { enqueue }: HandlerContext) {
    for (let link = 1; link <= LINKS; link += 1)
      await enqueue('link', { key, seq: seq * LINKS + link }, { key: String(link) });
  }

  @OnEffect<Ordered>('link', { key: ofPayload, retry })
  async link(payload: Ordered, { attempt }: EffectContext) {
    await logged('link', payload, attempt, async () => {
      if (fails(payload, attempt)) throw new Error('on purpose');
    });
  }

  @OnWebhook<Ordered>('awardee', 'broken', { name: 'broken', key: ofEvent, onDead: 'block' })
  async broken({ payload }: WebhookEvent<Ordered>, { attempt, enqueue }: HandlerContext) {
    await logged('broken', payload, attempt, () => broken('broken'));
    await enqueue('broken-effect', payload);
  }

  @OnEffect<Ordered>('broken-effect', { key: ofPayload, onDead: 'block' })
  async brokenEffect(payload: Ordered, { attempt }: EffectContext) {
    await logged('broken-effect', payload, attempt, () => broken('broken-effect'));
  }

  /** The first of each key is in doubt after its first attempt. */
  @OnEffect<Ordered>('held', { key: ofPayload, inDoubt: 'park', onDead: 'block' })
  async held(payload: Ordered, { attempt }: EffectContext) {
    await logged('held', payload, attempt, async () => {
      if (payload.seq === 1 && attempt === 1) throw new Error('no answer');
    });
  }

  @OnEffect<Ordered>('later', { key: ofPayload })
  async later(payload: Ordered, { attempt }: EffectContext) {
    await logged('later', payload, attempt, () => pause(2));
  }
}

/** A handler and an effect, in the build of before a renaming or in that of after it. */
export function line(renamed: boolean): Type {
  const [handler, effect] = renamed ? ['line', 'carry'] : ['old-line', 'old-carry'];
  const was = (name: string) => (renamed ? [name] : []);

  @Injectable()
  class Line {
    @OnWebhook<Ordered>('awardee', 'line', { name: handler, was: was('old-line'), key: ofEvent, retry })
    async line({ payload }: WebhookEvent<Ordered>, { attempt, enqueue }: HandlerContext) {
      await logged('line', payload, attempt, async () => {
        await enqueue(effect, payload);
        if (fails(payload, attempt)) throw new Error('on purpose');
      });
    }

    @OnEffect<Ordered>(effect, { was: was('old-carry'), key: ofPayload, retry })
    async carry(payload: Ordered, { attempt }: EffectContext) {
      await logged('carry', payload, attempt, () => pause(2));
    }
  }
  return Line;
}
