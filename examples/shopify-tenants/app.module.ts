import { Injectable, Module, type DynamicModule } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
// In your application: 'nestjs-webhook-inbox/migrations' and 'nestjs-webhook-inbox'.
import { webhookInboxMigrations } from '../../migrations/index.js';
import { cachedSecrets, shopify, WebhooksModule } from '../../src/index.js';
import { Shop, ShopOrder, Shops1796000005000 } from './orders.entities.js';
import { OrderHandlers } from './orders.handlers.js';
import { Warehouse } from './warehouse.js';

/** The secrets of the shops, from their table: a new shop needs no restart. */
@Injectable()
export class ShopSecrets {
  readonly secrets;

  constructor(dataSource: DataSource) {
    this.secrets = cachedSecrets({
      key: ({ headers }) => headers.first('x-shopify-shop-domain'),
      load: async (tenant) => {
        const shop = await dataSource.getRepository(Shop).findOneBy({ domain: tenant });
        return { tenant, secrets: shop === null ? [] : [shop.secret] };
      },
    });
  }
}

@Module({ providers: [ShopSecrets], exports: [ShopSecrets] })
class ShopsModule {}

@Module({})
export class ShopifyModule {
  static with(databaseUrl: string): DynamicModule {
    return {
      module: ShopifyModule,
      imports: [
        TypeOrmModule.forRoot({
          type: 'postgres',
          url: databaseUrl,
          entities: [Shop, ShopOrder],
          migrations: [...webhookInboxMigrations(), Shops1796000005000],
          migrationsRun: true,
        }),
        ScheduleModule.forRoot(),
        WebhooksModule.forRootAsync({
          imports: [ShopsModule],
          inject: [ShopSecrets],
          useFactory: ({ secrets }: ShopSecrets) => ({ sources: { shopify: shopify({ secrets }) } }),
        }),
      ],
      providers: [OrderHandlers, Warehouse],
    };
  }
}
