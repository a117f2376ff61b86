// A receiver over HTTP: ours, one without a database, or the one that articles show.
import 'reflect-metadata';
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import {
  Controller,
  HttpCode,
  Injectable,
  Module,
  Post,
  Req,
  UnauthorizedException,
  type INestApplication,
  type RawBodyRequest,
  type Type,
} from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import { hmac, OnWebhook, stripe, WebhooksModule } from '../../src/index.js';
import { serve } from '../support/program.js';
import { SECRET, STRIPE_SECRET } from '../support/signed.js';

export interface ReceiverSettings {
  readonly kind: 'ours' | 'bare' | 'articles';
  readonly adapter: 'express' | 'fastify';
  readonly databaseUrl: string;
  readonly groupCommit?: boolean;
  /** How claims are committed. @default 'message' */
  readonly claims?: 'message' | 'typeorm';
  /** Whether ours is served before the application's pipeline. @default true */
  readonly direct?: boolean;
  /** So many more sources, whose secrets a function returns. @default 0 */
  readonly sources?: number;
}

interface Event {
  readonly id: string;
  readonly type: string;
}

function verified(request: RawBodyRequest<{ headers: Record<string, unknown>; body: unknown }>): Event {
  const sent = Buffer.from(String(request.headers['x-signature']), 'hex');
  const made = createHmac('sha256', SECRET).update(request.rawBody!).digest();
  if (sent.length !== made.length || !timingSafeEqual(sent, made)) throw new UnauthorizedException();
  return request.body as Event;
}

@Controller('webhooks')
class Bare {
  @Post('bench')
  @HttpCode(200)
  receive(@Req() request: RawBodyRequest<{ headers: Record<string, unknown>; body: unknown }>) {
    verified(request);
    return { status: 'ok' };
  }
}

/** As the articles have it: one transaction for each request, with the claim and the outbox message. */
@Controller('webhooks')
class Articles {
  constructor(private readonly dataSource: DataSource) {}

  @Post('bench')
  @HttpCode(200)
  async receive(@Req() request: RawBodyRequest<{ headers: Record<string, unknown>; body: unknown }>) {
    const event = verified(request);
    const won = await this.dataSource.transaction(async (manager) => {
      const claimed: unknown[] = await manager.query(
        `INSERT INTO processed_event (event_id) VALUES ($1) ON CONFLICT DO NOTHING RETURNING event_id`,
        [event.id],
      );
      if (claimed.length === 0) return false;
      await manager.query(`INSERT INTO outbox_message (event_id, kind, payload) VALUES ($1, $2, $3)`, [
        event.id,
        event.type,
        request.rawBody!.toString(),
      ]);
      return true;
    });
    return { status: won ? 'ok' : 'duplicate' };
  }
}

@Injectable()
class Handlers {
  @OnWebhook('bench', '*')
  @OnWebhook('stripe', '*')
  handle() {}
}

/** Sources whose secrets a function returns, and a handler of each. */
function moreSources(count: number) {
  const names = Array.from({ length: count }, (_, nth) => `s${nth}`);
  const handle = Object.getOwnPropertyDescriptor(Handlers.prototype, 'handle')!;
  for (const name of names) OnWebhook(name, '*')(Handlers.prototype, 'handle', handle);
  const secrets = async () => [SECRET];
  const source = () => hmac({ secrets, signatureHeader: 'x-signature', idPath: 'id', typePath: 'type' });
  return Object.fromEntries(names.map((name) => [name, source()]));
}

function moduleOf(settings: ReceiverSettings): Type {
  const { kind, databaseUrl, groupCommit = true, claims = 'message', direct = true, sources = 0 } = settings;
  const database = TypeOrmModule.forRoot({ type: 'postgres', url: databaseUrl, poolSize: 10 });
  if (kind === 'bare') {
    @Module({ controllers: [Bare] })
    class BareModule {}
    return BareModule;
  }
  if (kind === 'articles') {
    @Module({ imports: [database], controllers: [Articles] })
    class ArticlesModule {}
    return ArticlesModule;
  }
  @Module({
    imports: [
      database,
      ScheduleModule.forRoot(),
      WebhooksModule.forRoot({
        sources: {
          bench: hmac({ secrets: [SECRET], signatureHeader: 'x-signature', idPath: 'id', typePath: 'type' }),
          stripe: stripe({ secrets: [STRIPE_SECRET] }),
          ...moreSources(sources),
        },
        relay: false,
        reconcile: false,
        retention: false,
        groupCommit,
        claims,
        controller: { direct },
      }),
    ],
    providers: [Handlers],
  })
  class OursModule {}
  return OursModule;
}

await serve(async (settings: ReceiverSettings) => {
  const adapter = settings.adapter === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const app: INestApplication = await NestFactory.create(moduleOf(settings), adapter as never, {
    rawBody: settings.kind !== 'ours',
    logger: ['error', 'warn'],
  });
  await app.listen(0, '127.0.0.1');
  const { port } = (app.getHttpServer() as { address(): AddressInfo }).address();
  return { ready: { port }, run: async () => undefined, stop: () => app.close() };
});
