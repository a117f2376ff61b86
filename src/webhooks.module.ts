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
import { Alerts } from './core/telemetry/alerts.js';
import { WebhookLifecycle } from './core/telemetry/lifecycle-events.js';
import type { WebhooksOptions } from './core/options/options.js';
import { check } from './core/options/schema.js';
import { resolveOptions, type ResolvedOptions } from './core/options/resolve-options.js';
import { Tally } from './core/telemetry/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from './core/tokens.js';
import { BackfillExplorer } from './handlers/backfill.explorer.js';
import { ClassNames } from './handlers/class-names.js';
import { DecoratedProviders } from './handlers/decorated.providers.js';
import { HandlerExplorer } from './handlers/handler.explorer.js';
import { PassedOver } from './handlers/passed-over.js';
import { HandlerRegistry } from './handlers/handler.registry.js';
import { AnswerWriter } from './http/answer.writer.js';
import { BodyIntake } from './http/body/body-intake.js';
import { ByteBudget } from './http/body/byte-budget.js';
import { MAY_BE_DIRECT } from './http/controller.metadata.js';
import { DirectRoute } from './http/direct/direct.route.js';
import { HostAnswers } from './http/direct/host-answers.js';
import { HostPipeline } from './http/direct/host-pipeline.js';
import { IdempotencyInterceptor } from './http/idempotency.interceptor.js';
import { OwnEnhancers } from './http/direct/own-enhancers.js';
import { RawBodyInstaller } from './http/body/raw-body.installer.js';
import { RouteExplorer } from './http/route.explorer.js';
import { SignatureGuard } from './http/signature.guard.js';
import { SourceUrls } from './http/source-urls.js';
import { WebhookRequests } from './http/webhook.requests.js';
import { WebhookRoutes } from './http/webhook.routes.js';
import { mayBeDirect, webhooksController, type ControllerOptions } from './http/webhooks.controller.js';
import { Backfills } from './inbox/catch-up/backfills.js';
import { Backlog } from './inbox/backlog.js';
import { Claimer } from './inbox/claimer.js';
import { DeliveryVerifier } from './inbox/delivery.verifier.js';
import { Conflicts } from './inbox/conflicts.js';
import { EventDispatcher } from './inbox/event.dispatcher.js';
import { GroupCommit } from './inbox/group-commit.js';
import { HandOff } from './inbox/hand-off.js';
import { Inbox } from './inbox/inbox.js';
import { InlineDispatcher } from './inbox/inline.dispatcher.js';
import { OwedRows } from './inbox/catch-up/owed-rows.js';
import { PausedWork } from './inbox/paused-work.js';
import { ProviderRetries } from './inbox/provider-retries.js';
import { RecordReconciler } from './inbox/catch-up/record.reconciler.js';
import { Rejections } from './inbox/rejections.js';
import { StartupReconciler } from './inbox/catch-up/startup.reconciler.js';
import { LifecycleModule } from './lifecycle.module.js';
import { Erasure } from './operator/erasure.js';
import { Forwarder } from './operator/replay/forwarder.js';
import { operatorProviders } from './operator/operator.providers.js';
import { Parked } from './operator/parked.js';
import { Pauses } from './operator/pauses.js';
import { ReplayPlanner } from './operator/replay/replay.planner.js';
import { Replays } from './operator/replay/replays.js';
import { Retention } from './operator/retention.js';
import { WebhookHealth } from './operator/webhook-health.js';
import { Revivals } from './operator/revivals.js';
import { BatchRunner } from './outbox/runs/batch.runner.js';
import { DeadLetters } from './outbox/runs/dead-letters.js';
import { EffectDoubts } from './outbox/runs/effect-doubts.js';
import { EventPreparer } from './outbox/runs/event.preparer.js';
import { LeasePlan } from './outbox/relay/lease-plan.js';
import { Leaser } from './outbox/relay/leaser.js';
import { PausedNames } from './outbox/relay/paused-names.js';
import { EnqueueStores } from './outbox/enqueue/run-enqueue.js';
import { StrangerRows } from './outbox/relay/stranger-rows.js';
import { StaleFilter } from './outbox/runs/stale.filter.js';
import { Turns } from './outbox/relay/turns.js';
import { EffectRunner } from './outbox/runs/effect.runner.js';
import { FailureSettler } from './outbox/runs/failure.settler.js';
import { GroupSettle } from './outbox/runs/group-settle.js';
import { HandlerRunner } from './outbox/runs/handler.runner.js';
import { HostTimers } from './outbox/host-timers.js';
import { DeliveryPlaces } from './outbox/relay/delivery-places.js';
import { JobRunner } from './outbox/relay/job.runner.js';
import { Solos } from './outbox/relay/solo.js';
import { UntoldDeaths } from './outbox/runs/untold-deaths.js';
import { LoneStatements } from './outbox/runs/lone-statements.js';
import { Notifier } from './outbox/wake/notifier.js';
import { Pace } from './outbox/relay/pace.js';
import { Outbox } from './outbox/enqueue/outbox.js';
import { OrderKeys } from './outbox/enqueue/order-keys.js';
import { OutboxRelay } from './outbox/relay/outbox.relay.js';
import { RelayLoop } from './outbox/relay/relay.loop.js';
import { WakeUp } from './outbox/wake/wake-up.js';
import { WakeListener } from './outbox/wake/wake.listener.js';
import { refuseSecondImport } from './single.import.js';
import { ClaimStore } from './storage/claim.store.js';
import { DecisionStore } from './storage/desk/decision.store.js';
import { ErasureStore } from './storage/desk/erasure.store.js';
import { hearErrors } from './storage/postgres/connection.js';
import { chooseWay } from './storage/postgres/transaction-way.js';
import { withoutPreparedStatements } from './storage/postgres/one-message.js';
import { dataSourceProvider } from './storage/schema/data-source.provider.js';
import { EffectStore } from './storage/desk/effect.store.js';
import { fixSchema } from './storage/schema/own-schema.js';
import { LeaseStore } from './storage/lease.store.js';
import { NotifyStore } from './storage/notify.store.js';
import { OutboxStore } from './storage/outbox.store.js';
import { RecordStore } from './storage/record.store.js';
import { PauseStore } from './storage/pause.store.js';
import { SettleStore } from './storage/settle.store.js';
import { ReplayStore } from './storage/desk/replay.store.js';
import { TurnStore } from './storage/turn.store.js';
import { keepViewNames } from './storage/schema/view-entities.js';
import { WatermarkStore } from './storage/watermark.store.js';
import { StrayQueries } from './storage/postgres/stray-queries.js';
import { RetentionStore } from './storage/desk/retention.store.js';

/** What Nest must know before any factory has run. */
export interface WebhooksModuleExtras {
  /** The module's own route; `false` when the application has routes with `@UseWebhook` only. @default { path: 'webhooks' } */
  readonly controller?: ControllerOptions | false;
  /** Name of the application's TypeORM DataSource. @default the unnamed one */
  readonly dataSource?: string;
}

export interface WebhooksModuleAsyncOptions extends WebhooksModuleExtras, Pick<ModuleMetadata, 'imports'> {
  readonly inject?: FactoryProvider<WebhooksOptions>['inject'];
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

const storage = [
  StrayQueries,
  ClaimStore,
  DecisionStore,
  EffectStore,
  ErasureStore,
  LeaseStore,
  NotifyStore,
  OutboxStore,
  PauseStore,
  RecordStore,
  ReplayStore,
  RetentionStore,
  SettleStore,
  TurnStore,
  WatermarkStore,
];
const outbox = [
  Alerts,
  BatchRunner,
  DeadLetters,
  EffectDoubts,
  EffectRunner,
  EnqueueStores,
  EventPreparer,
  FailureSettler,
  GroupSettle,
  LoneStatements,
  UntoldDeaths,
  HandlerRunner,
  HostTimers,
  JobRunner,
  DeliveryPlaces,
  Solos,
  Notifier,
  LeasePlan,
  Leaser,
  OrderKeys,
  Outbox,
  OutboxRelay,
  Pace,
  PausedNames,
  RelayLoop,
  WakeListener,
  StaleFilter,
  StrangerRows,
  Turns,
  WakeUp,
  WebhookLifecycle,
];
const inbox = [
  Backfills,
  Backlog,
  Claimer,
  Conflicts,
  DeliveryVerifier,
  EventDispatcher,
  GroupCommit,
  HandOff,
  Inbox,
  InlineDispatcher,
  OwedRows,
  PausedWork,
  ProviderRetries,
  RecordReconciler,
  Rejections,
  StartupReconciler,
];
const http = [
  AnswerWriter,
  BodyIntake,
  ByteBudget,
  DirectRoute,
  HostAnswers,
  HostPipeline,
  OwnEnhancers,
  WebhookRequests,
  IdempotencyInterceptor,
  RawBodyInstaller,
  RouteExplorer,
  SignatureGuard,
  SourceUrls,
  WebhookRoutes,
];
const handlers = [
  BackfillExplorer,
  ClassNames,
  DecoratedProviders,
  HandlerExplorer,
  HandlerRegistry,
  PassedOver,
];
const operator = [
  Erasure,
  Forwarder,
  Parked,
  Pauses,
  ReplayPlanner,
  Replays,
  Retention,
  Revivals,
  Tally,
  WebhookHealth,
  ...operatorProviders,
];
const all = [...storage, ...outbox, ...inbox, ...http, ...handlers, ...operator];

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
    private readonly plan: LeasePlan,
    private readonly strayQueries: StrayQueries,
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  static forRoot(options: WebhooksOptions & WebhooksModuleExtras): DynamicModule {
    const { controller, dataSource, ...rest } = options;
    return compose(
      { controller, dataSource },
      { provide: WEBHOOKS_OPTIONS, useFactory: () => resolveOptions(rest) },
    );
  }

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
    this.passedOver.tell();
    this.classNames.tell();
    this.rawBody.checkOrder();
    this.rawBody.installDirect();
    this.plan.checkPool();
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
