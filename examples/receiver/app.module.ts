import { Module, type DynamicModule } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
// In your application: 'nestjs-webhook-inbox/migrations' and 'nestjs-webhook-inbox'.
import { webhookInboxMigrations } from '../../migrations/index.js';
import { WebhooksModule } from '../../src/index.js';
import type { Postgres } from '../support/postgres.js';
import { dashboard } from './dashboard.js';
import { DemoModule } from './demo/demo.handlers.js';
import { FirstAttempts } from './first.attempts.js';
import { ReceivedEvent1796000001000 } from './migrations/1796000001000-received-event.js';
import { NotifyEffect } from './notify.effect.js';
import { PostgresModule } from './postgres.module.js';
import { ReceivedEvent } from './received-event.entity.js';
import { receivedEventHandlers } from './received-event.handlers.js';
import { Billing1796000002000 } from './repeat-safe/billing.migration.js';
import { RepeatSafeModule } from './repeat-safe/repeat-safe.module.js';
import { Settings } from './settings.js';

@Module({})
export class AppModule {
  static with(settings: Settings, postgres: Postgres): DynamicModule {
    return {
      module: AppModule,
      imports: [
        PostgresModule.with(postgres),
        TypeOrmModule.forRoot({
          type: 'postgres',
          url: postgres.url,
          entities: [ReceivedEvent],
          // The package's tables beside the application's own, in one list.
          migrations: [...webhookInboxMigrations(), ReceivedEvent1796000001000, Billing1796000002000],
          // A database that is not there should be said at once; behind an orchestrator that starts both, leave this out.
          retryAttempts: 0,
        }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({ sources: settings.sources }),
        ...dashboard(settings),
        // Their sources are among the default ones; a file may have others.
        ...('stripe' in settings.sources && 'awardee' in settings.sources ? [RepeatSafeModule] : []),
        ...(settings.demoRelease === undefined ? [] : [DemoModule.of(settings.demoRelease)]),
      ],
      providers: [
        { provide: Settings, useValue: settings },
        FirstAttempts,
        NotifyEffect,
        receivedEventHandlers(Object.keys(settings.sources)),
      ],
    };
  }
}
