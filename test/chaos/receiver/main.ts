// A receiver of a run: started, frozen and killed by the supervisor, over and over.
import 'reflect-metadata';
import { writeSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Instance } from '../../../src/core/instance.js';
import { Replays, WebhooksModule, type ReplaySelection } from '../../../src/index.js';
import { installFailPoints, type Point, type When } from '../../support/fail-points.js';
import { ChaosBilling } from './billing.js';
import { ChaosSoak } from './soak.js';
import {
  ChaosEffects,
  ChaosHandlers,
  ChaosRoute,
  ExtraHandler,
  OwnHandler,
  FormerOwnHandler,
} from './handlers.js';
import { chaosSources } from './sources.js';

/** What the supervisor asks for: to stop dead at the nth passing of a point. */
export interface Ambush {
  readonly point: Point;
  readonly when: When;
  readonly nth: number;
}
type ToReceiver =
  | Ambush
  | 'go on'
  | 'memory'
  | 'memory after a collection'
  | { readonly replay: Extract<ReplaySelection, { events: unknown }>['events'] };
export type FromReceiver =
  | { readonly kind: 'ready'; readonly owner: string }
  | { readonly kind: 'ambushed'; readonly point: Point; readonly when: When }
  | ({ readonly kind: 'memory' } & Memory);
/** What it needs. */
export interface Memory {
  readonly heapBytes: number;
  readonly rssBytes: number;
  /** By how much its event loop was late since it was last asked: 99 of 100 turns by less. */
  readonly lateP99Ms: number;
}

const env = process.env;
const engine = env.ENGINE === undefined ? undefined : await import('./engine.js');
let ambush: Ambush | undefined;
let passings = 0;

// Through a pipe of its own and at once: a message of the IPC channel would wait for the event loop, which stops here.
const tell = (message: FromReceiver) => writeSync(3, `${JSON.stringify(message)}\n`);

installFailPoints((point, when) => {
  if (ambush === undefined || ambush.point !== point || ambush.when !== when) return undefined;
  passings += 1;
  if (passings < ambush.nth) return undefined;
  tell({ kind: 'ambushed', point, when });
  // Dead from here on, until the supervisor has looked and kills.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  return undefined;
});
const lateness = monitorEventLoopDelay({ resolution: 10 });
lateness.enable();
process.on('message', (message: ToReceiver) => {
  if (message === 'memory') return tellMemory();
  if (message === 'memory after a collection') return collectAndTell();
  if (typeof message === 'object' && 'replay' in message) return replay(message.replay);
  ambush = message === 'go on' ? undefined : message;
  passings = 0;
});

/** It may be refused, or fail with the process that another deed ends. */
function replay(events: Extract<ReplaySelection, { events: unknown }>['events']): void {
  void app
    .get(Replays)
    .run({ events }, { by: 'chaos', reason: 'a race', newEffects: 'allow' })
    .catch(() => undefined);
}

/** A collection of everything stops the process, and what it serves meanwhile. */
function collectAndTell(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  tellMemory();
}

function tellMemory(): void {
  const { heapUsed, rss } = process.memoryUsage();
  const lateP99Ms = Math.round(lateness.percentile(99) / 1e6);
  lateness.reset();
  tell({ kind: 'memory', heapBytes: heapUsed, rssBytes: rss, lateP99Ms });
}

@Module({
  imports: [
    TypeOrmModule.forRoot({
      type: 'postgres',
      url: env.DATABASE_URL!,
      poolSize: 10,
      applicationName: env.NAME!,
      retryAttempts: 100,
      retryDelay: 200,
    }),
    ScheduleModule.forRoot(),
    WebhooksModule.forRoot({
      sources: chaosSources(env.KEPT_MS === undefined ? undefined : Number(env.KEPT_MS)),
      relay: { pollInterval: env.POLL_MS!, lease: env.LEASE_MS!, shutdownGrace: '10s' },
      claimTimeout: '5s',
      transports: engine && [
        {
          transport: engine.engineTransport(env.ENGINE!, env.ENGINE_URL!),
          effects: engine.ENGINE_EFFECTS,
          unheardAfter: '60s',
        },
      ],
      retention: env.RETENTION_SCHEDULE !== undefined && { schedule: env.RETENTION_SCHEDULE },
      reconcile: true,
    }),
  ],
  // A rolling deploy has the application of before beside that of now.
  providers: [
    ChaosHandlers,
    ChaosEffects,
    ChaosBilling,
    ChaosSoak,
    env.BEFORE === '1' ? FormerOwnHandler : OwnHandler,
    ...(env.EXTRA === '1' ? [ExtraHandler] : []),
  ],
  controllers: [ChaosRoute],
})
class ChaosReceiver {}

async function adapter() {
  if (env.HTTP_ADAPTER === 'fastify') {
    const { FastifyAdapter } = await import('@nestjs/platform-fastify');
    return new FastifyAdapter();
  }
  const { ExpressAdapter } = await import('@nestjs/platform-express');
  return new ExpressAdapter();
}

const app = await NestFactory.create(ChaosReceiver, await adapter(), {
  logger: env.LOG === '1' ? undefined : ['fatal', 'error', 'warn'],
});
app.enableShutdownHooks(['SIGTERM'], { useProcessExit: true });
// A supervisor that has gone leaves no receiver behind.
process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'));
await app.listen(Number(env.PORT), '127.0.0.1');
tell({ kind: 'ready', owner: app.get(Instance).id });
