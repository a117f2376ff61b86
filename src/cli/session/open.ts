import {
  ConsoleLogger,
  Module,
  type DynamicModule,
  type INestApplicationContext,
  type Type,
} from '@nestjs/common';
import { NestFactory, type AbstractHttpAdapter } from '@nestjs/core';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { getDataSourceToken } from '@nestjs/typeorm';
import type { DataSource } from 'typeorm';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { WebhookRoutes } from '../../http/webhook.routes.js';
import { Backfills } from '../../inbox/catch-up/backfills.js';
import { StartupReconciler } from '../../inbox/catch-up/startup.reconciler.js';
import { Inspector } from '../../operator/inspector.js';
import { Operator } from '../../operator/operator.js';
import { Replays } from '../../operator/replay/replays.js';
import { Retention } from '../../operator/retention.js';
import { Stats } from '../../operator/stats.js';
import { Notifier } from '../../outbox/wake/notifier.js';
import { WebhooksModule } from '../../webhooks.module.js';
import { adapterOf } from './adapter.js';
import { loadAppModule } from './app-module.js';
import { AtRest, stopSchedule } from './at-rest.js';
import { dataSourceOfUrl, loadDataSource } from './data-source.js';
import type { Place, Session } from './session.js';

/** @throws UsageError for a file that cannot be used; errors of the database that cannot be reached */
export async function openSession(place: Place): Promise<Session> {
  return place.app === undefined ? ofTables(place) : ofApplication(place.app, place);
}

async function ofApplication(named: string, { verbose, http = false }: Place): Promise<Session> {
  const module = AtRest.around(await loadAppModule(named));
  const adapter = http ? await adapterOf(named) : undefined;
  const context = await start(module, verbose, adapter);
  return session(context, true, () => context.close());
}

async function ofTables({ dataSource: file, schema, verbose }: Place): Promise<Session> {
  const dataSource =
    file === undefined ? dataSourceOfUrl(process.env.DATABASE_URL!) : await loadDataSource(file);
  if (!dataSource.isInitialized) await dataSource.initialize();
  try {
    const context = await start(AtRest.around(tablesModule(dataSource, schema)), verbose);
    return session(context, false, async () => {
      await context.close();
      await dataSource.destroy();
    });
  } catch (error) {
    await dataSource.destroy();
    throw error;
  }
}

@Module({})
class Tables {}

/** The package without sources: lists and deeds that need no handler. */
function tablesModule(dataSource: DataSource, schema: string | undefined): DynamicModule {
  const given = { provide: getDataSourceToken(), useValue: dataSource };
  return {
    module: Tables,
    global: true,
    imports: [
      ScheduleModule.forRoot(),
      WebhooksModule.forRoot({ sources: {}, controller: false, relay: false, ...(schema && { schema }) }),
    ],
    providers: [given],
    exports: [given],
  };
}

async function start(
  module: DynamicModule,
  verbose = false,
  adapter?: AbstractHttpAdapter,
): Promise<INestApplicationContext> {
  const logger = new ConsoleLogger({ logLevels: verbose ? ['verbose'] : ['fatal', 'error', 'warn'] });
  const options = { logger, abortOnError: false };
  const context =
    adapter === undefined
      ? await NestFactory.createApplicationContext(module, options)
      : await (await NestFactory.create(module, adapter, options)).init();
  stopSchedule(context.get(SchedulerRegistry, { strict: false }));
  // The relays that run elsewhere hear of what a command has made due.
  context.get(Notifier, { strict: false }).start();
  return context;
}

function session(context: INestApplicationContext, hasApp: boolean, close: () => Promise<void>): Session {
  const get = <T>(type: Type<T> | symbol) => context.get<T>(type, { strict: false });
  return {
    context,
    hasApp,
    dataSource: get<DataSource>(WEBHOOKS_DATA_SOURCE),
    options: get<ResolvedOptions>(WEBHOOKS_OPTIONS),
    inspector: get(Inspector),
    operator: get(Operator),
    stats: get(Stats),
    replays: get(Replays),
    backfills: get(Backfills),
    reconciler: get(StartupReconciler),
    retention: get(Retention),
    routes: get(WebhookRoutes),
    close,
  };
}
