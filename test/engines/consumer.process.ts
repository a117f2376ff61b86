// A consumer that is killed after its commit, and before its report. Forked by `bullmq.spec`.
import 'reflect-metadata';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { TypeOrmModule } from '@nestjs/typeorm';
import { EffectConsumerModule } from '../../src/index.js';
import { bullmq } from '../../src/transports/bullmq/index.js';
import { options } from '../support/database.js';
import { Postman } from './support.js';

const { hostname: host, port } = new URL(process.env.REDIS_URL!);
const transport = bullmq({ connection: { host, port: Number(port) }, name: process.env.QUEUES, lock: '1s' });
transport.report = async () => {
  process.kill(process.pid, 'SIGKILL');
  await new Promise(() => undefined);
};

@Module({
  imports: [
    TypeOrmModule.forRoot({ ...options(process.env.DATABASE_URL!), retryAttempts: 0 }),
    EffectConsumerModule.forRoot({ transport }),
  ],
  providers: [Postman],
})
class ConsumerProcess {}

await NestFactory.createApplicationContext(ConsumerProcess, { logger: false });
