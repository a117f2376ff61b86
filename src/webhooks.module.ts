import {
  Inject,
  Module,
  type DynamicModule,
  type FactoryProvider,
  type ModuleMetadata,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { DiscoveryModule, ModulesContainer } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import type { WebhooksOptions } from './core/options/options.js';
import { check } from './core/options/schema.js';
import { resolveOptions, type ResolvedOptions } from './core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from './core/tokens.js';
import { BackfillExplorer } from './handlers/backfill.explorer.js';
import { ClassNames } from './handlers/class-names.js';
import { HandlerExplorer } from './handlers/handler.explorer.js';
import { PassedOver } from './handlers/passed-over.js';
import { HandlerRegistry } from './handlers/handler.registry.js';
import { MAY_BE_DIRECT } from './http/controller.metadata.js';
import { RawBodyInstaller } from './http/body/raw-body.installer.js';
import { RouteExplorer } from './http/route.explorer.js';
import { mayBeDirect, webhooksController, type ControllerOptions } from './http/webhooks.controller.js';
import { LifecycleModule } from './lifecycle.module.js';
import { HandlerSlots } from './outbox/slots/handler-slots.js';
import { HostTimers } from './outbox/host-timers.js';
import { storageProviders } from './storage/storage.providers.js';
import { coreProviders } from './core/core.providers.js';
import { outboxProviders } from './outbox/outbox.providers.js';
import { inboxProviders } from './inbox/inbox.providers.js';
import { httpProviders } from './http/http.providers.js';
import { handlersProviders } from './handlers/handlers.providers.js';
import { operatorProviders } from './operator/operator.providers.js';
import { refuseSecondImport } from './single.import.js';
import { hearErrors } from './storage/postgres/connection.js';
import { chooseWay } from './storage/postgres/transaction-way.js';
import { withoutPreparedStatements } from './storage/postgres/one-message.js';
import { dataSourceProvider } from './storage/schema/data-source.provider.js';
import { fixSchema } from './storage/schema/own-schema.js';
import { keepViewNames } from './storage/schema/view-entities.js';
import { StrayQueries } from './storage/postgres/stray-queries.js';

/** The options that Nest needs before any factory has run. */
export interface WebhooksModuleExtras {
  /** The module's own route; `false` when the application has routes with `@UseWebhook` only. @default { path: 'webhooks' } */
  readonly controller?: ControllerOptions | false;
  /** Name of the application's TypeORM DataSource. @default the unnamed one */
  readonly dataSource?: string;
}

/** Options of `forRootAsync`: the factory of the module's options, and options that Nest needs before it. */
export interface WebhooksModuleAsyncOptions extends WebhooksModuleExtras, Pick<ModuleMetadata, 'imports'> {
  readonly inject?: FactoryProvider<WebhooksOptions>['inject'];
  /** Returns the options of the module. */
  readonly useFactory: FactoryProvider<WebhooksOptions>['useFactory'];
}

/** Options of the module are in what the factory returns: beside it they would be passed over in silence. */
const asyncOptionsSchema = z.strictObject({
  useFactory: z.custom((value) => typeof value === 'function', {
    error: 'expected a function that returns the options of the module',
  }),
  inject: z.unknown().optional(),
  imports: z.unknown().optional(),
  controller: z.unknown().optional(),
  dataSource: z.unknown().optional(),
});

const all = [
  ...coreProviders,
  ...storageProviders,
  ...handlersProviders,
  ...outboxProviders,
  ...inboxProviders,
  ...httpProviders,
  ...operatorProviders,
];

/** Receives webhooks. Global: handlers, effects and routes may be in any module. Needs TypeOrmModule and ScheduleModule in the root module. */
@Module({})
export class WebhooksModule implements OnModuleInit {
  constructor(
    private readonly modules: ModulesContainer,
    private readonly handlers: HandlerExplorer,
    private readonly backfills: BackfillExplorer,
    private readonly routes: RouteExplorer,
    private readonly registry: HandlerRegistry,
    private readonly passedOver: PassedOver,
    private readonly classNames: ClassNames,
    private readonly timers: HostTimers,
    private readonly rawBody: RawBodyInstaller,
    private readonly slots: HandlerSlots,
    private readonly strayQueries: StrayQueries,
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** The module with its options. Import it once, in the root module. @throws ConfigurationError for a wrong option, at boot */
  static forRoot(options: WebhooksOptions & WebhooksModuleExtras): DynamicModule {
    const { controller, dataSource, ...rest } = options;
    return compose(
      { controller, dataSource },
      { provide: WEBHOOKS_OPTIONS, useFactory: () => resolveOptions(rest) },
    );
  }

  /** The same, with options from a factory. */
  static forRootAsync(options: WebhooksModuleAsyncOptions): DynamicModule {
    check(asyncOptionsSchema, options, 'WebhooksModule.forRootAsync');
    const { useFactory, inject = [], imports = [] } = options;
    const provider: FactoryProvider = {
      provide: WEBHOOKS_OPTIONS,
      inject,
      useFactory: async (...args: unknown[]) => resolveOptions(await useFactory(...(args as never[]))),
    };
    return compose(options, provider, imports);
  }

  /** @throws ConfigurationError for every impossible handler, effect, route or surrounding */
  onModuleInit(): void {
    refuseSecondImport(this.modules, WebhooksModule);
    this.timers.connect();
    this.handlers.explore();
    this.backfills.explore();
    this.routes.explore();
    this.registry.close();
    this.passedOver.warn();
    this.classNames.warn();
    this.rawBody.checkOrder();
    this.rawBody.installDirect();
    this.slots.checkPool();
    fixSchema(this.dataSource, this.options.schema);
    keepViewNames(this.dataSource);
    hearErrors(this.dataSource);
    if (!this.options.preparedStatements) withoutPreparedStatements(this.dataSource);
    chooseWay(this.dataSource, { claims: this.options.claims, open: this.options.transaction });
    this.strayQueries.watch(this.dataSource);
  }
}

function compose(
  { controller = {}, dataSource }: WebhooksModuleExtras,
  options: Provider,
  imports: ModuleMetadata['imports'] = [],
): DynamicModule {
  return {
    module: WebhooksModule,
    global: true,
    imports: [DiscoveryModule, LifecycleModule, ...imports],
    controllers: controller === false ? [] : [webhooksController(controller)],
    providers: [
      options,
      dataSourceProvider(dataSource),
      { provide: MAY_BE_DIRECT, useValue: controller !== false && mayBeDirect(controller) },
      ...all,
    ],
    exports: [WEBHOOKS_OPTIONS, WEBHOOKS_DATA_SOURCE, ...all],
  };
}
