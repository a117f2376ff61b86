// The articles' receiver, with graphile-worker for what comes after: claim, business record and job in one transaction.
import 'reflect-metadata';
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import {
  Controller,
  HttpCode,
  Module,
  Post,
  Req,
  UnauthorizedException,
  type RawBodyRequest,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';
import { DataSource } from 'typeorm';
import { serve } from '../support/program.js';
import { SECRET } from '../support/signed.js';

interface Request {
  readonly headers: Record<string, unknown>;
  readonly body: { readonly id: string; readonly type: string };
}

@Controller('webhooks')
class Articles {
  constructor(private readonly dataSource: DataSource) {}

  @Post('bench')
  @HttpCode(200)
  async receive(@Req() request: RawBodyRequest<Request>) {
    const sent = Buffer.from(String(request.headers['x-signature']), 'hex');
    const made = createHmac('sha256', SECRET).update(request.rawBody!).digest();
    if (sent.length !== made.length || !timingSafeEqual(sent, made)) throw new UnauthorizedException();
    const { id, type } = request.body;
    await this.dataSource.transaction(async (manager) => {
      const claimed: unknown[] = await manager.query(
        `INSERT INTO processed_event (event_id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING event_id`,
        [id],
      );
      if (claimed.length === 0) return;
      await manager.query(`INSERT INTO business_record (source, event_id, kind) VALUES ('bench', $1, $2)`, [
        id,
        type,
      ]);
      await manager.query(`SELECT graphile_worker.add_job('nothing', $1::json)`, [
        request.rawBody!.toString(),
      ]);
    });
    return { status: 'ok' };
  }
}

const QUIET = new Logger(() => () => undefined);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

await serve(async ({ databaseUrl }: { databaseUrl: string }) => {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 10 });
  pool.on('error', () => undefined);
  pool.on('connect', (client) => client.on('error', () => undefined));
  const utils = await makeWorkerUtils({ pgPool: pool, logger: QUIET });
  await utils.migrate();
  let done = 0;
  const runner = await run({
    pgPool: pool,
    noHandleSignals: true,
    parsedCronItems: [],
    logger: QUIET,
    preset: { worker: { concurrentJobs: 24, pollInterval: 1_000, localQueue: { size: 500 } } },
    taskList: {
      nothing: async () => {
        done += 1;
      },
    },
  });
  @Module({
    imports: [TypeOrmModule.forRoot({ type: 'postgres', url: databaseUrl, poolSize: 10 })],
    controllers: [Articles],
  })
  class ArticlesModule {}
  const app = await NestFactory.create(ArticlesModule, new ExpressAdapter(), {
    rawBody: true,
    logger: ['error', 'warn'],
  });
  await app.listen(0, '127.0.0.1');
  const { port } = (app.getHttpServer() as { address(): AddressInfo }).address();
  let before = 0;
  return {
    ready: { port },
    run: async (order) => {
      const { jobs } = order as { readonly jobs: number };
      while (done - before < jobs) await pause(2);
      before = done;
      for (;;) {
        const { rows } = await pool.query('SELECT FROM graphile_worker.jobs LIMIT 1');
        if (rows.length === 0) return;
        await pause(2);
      }
    },
    stop: async () => {
      await runner.stop();
      await app.close();
      await pool.end();
    },
  };
});
