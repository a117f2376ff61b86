import { Module, type DynamicModule } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
// In your application: 'nestjs-webhook-inbox/migrations' and 'nestjs-webhook-inbox'.
import { webhookInboxMigrations } from '../../migrations/index.js';
import { stripe, WebhooksModule } from '../../src/index.js';
import { Invoice, Subscription } from './billing.entities.js';
import { BillingHandlers } from './billing.handlers.js';
import { Billing1796000003000 } from './billing.migration.js';
import { MAIL_URL, ReceiptsEffect } from './receipts.effect.js';

export interface BillingSettings {
  readonly databaseUrl: string;
  readonly stripeSecret: string;
  readonly mailUrl: string;
}

@Module({})
export class BillingModule {
  static with({ databaseUrl, stripeSecret, mailUrl }: BillingSettings): DynamicModule {
    return {
      module: BillingModule,
      imports: [
        TypeOrmModule.forRoot({
          type: 'postgres',
          url: databaseUrl,
          entities: [Invoice, Subscription],
          migrations: [...webhookInboxMigrations(), Billing1796000003000],
          migrationsRun: true,
        }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({ sources: { stripe: stripe({ secrets: [stripeSecret] }) } }),
      ],
      providers: [BillingHandlers, ReceiptsEffect, { provide: MAIL_URL, useValue: mailUrl }],
    };
  }
}
