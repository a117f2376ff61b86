import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { DataSource } from 'typeorm';
import { migrate } from '../../src/index.js';
import type { Postgres } from '../support/postgres.js';
import { AppModule } from './app.module.js';
import type { Settings } from './settings.js';

/** Migrates the database and serves webhooks until the process is told to end. */
export async function serve(settings: Settings, postgres: Postgres): Promise<INestApplication> {
  const adapter = settings.adapter === 'fastify' ? new FastifyAdapter() : new ExpressAdapter();
  const app = await NestFactory.create(AppModule.with(settings, postgres), adapter, {
    // A wrong setting should end in one clear line, which main.ts prints, and not in the stack traces that Nest logs on the way:
    // the log waits until the application is up.
    abortOnError: false,
    bufferLogs: true,
    autoFlushLogs: false,
  });
  await migrate(app.get(DataSource));
  // Without the hooks a signal would end the process in the middle of a handler.
  app.enableShutdownHooks(['SIGINT', 'SIGTERM'], { useProcessExit: true });
  await app.listen(settings.port, settings.host);
  app.flushLogs();
  return app;
}
