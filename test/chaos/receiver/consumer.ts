// A consumer of an engine: started, frozen and killed by the supervisor, as receivers are. It has a database of its own.
import 'reflect-metadata';
import { writeSync } from 'node:fs';
import { Injectable, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { EffectConsumerModule, OnEffect, type EffectContext } from '../../../src/index.js';
import { ENGINE_EFFECTS, engineTransport } from './engine.js';
import { post, retry, type Told } from './handlers.js';

const { DATABASE_URL, ENGINE, ENGINE_URL, NAME } = process.env;

@Injectable()
export class Teller {
  @OnEffect('tell', { retry })
  async tell(told: Told, context: EffectContext) {
    await post('idempotent', told, context);
  }
}

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: DATABASE_URL!,
      poolSize: 10,
      applicationName: NAME!,
      retryAttempts: 100,
      retryDelay: 200,
    }),
    EffectConsumerModule.forRoot({
      transport: engineTransport(ENGINE!, ENGINE_URL!),
      effects: ENGINE_EFFECTS,
      concurrency: 8,
    }),
  ],
  providers: [Teller],
})
class ChaosConsumer {}

const app = await NestFactory.createApplicationContext(ChaosConsumer, { logger: ['fatal', 'error', 'warn'] });
app.enableShutdownHooks(['SIGTERM'], { useProcessExit: true });
// A supervisor that has gone leaves no consumer behind.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
writeSync(3, `${JSON.stringify({ kind: 'ready', owner: NAME })}\n`);
