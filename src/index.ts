export { WebhooksModule } from './webhooks.module.js';
export type { WebhooksModuleAsyncOptions, WebhooksModuleExtras } from './webhooks.module.js';

export { EffectConsumerModule } from './consumer/effect-consumer.module.js';
export type { EffectConsumerAsyncOptions, EffectConsumerExtras } from './consumer/effect-consumer.module.js';
export type { EffectConsumerOptions } from './consumer/consumer.options.js';

export { OnWebhook } from './handlers/on-webhook.decorator.js';
export { BackfillSource, type BackfillSourceOptions } from './handlers/backfill-source.decorator.js';
export type { BackfillContext, BackfillEvent, ListEvents } from './handlers/backfill-source.decorator.js';
export { OnEffect } from './handlers/on-effect.decorator.js';
export { UseWebhook } from './http/use-webhook.decorator.js';
export { Event, TxManager, type EventPart } from './http/route-params.js';
export type {
  BatchContext,
  BatchEvent,
  CompletionContext,
  EffectContext,
  EffectName,
  EffectPayload,
  Enqueue,
  Enqueued,
  EnqueueOptions,
  HandlerContext,
  WebhookEffects,
} from './core/context.js';

export { SignatureGuard } from './http/signature.guard.js';
export { IdempotencyInterceptor } from './http/idempotency.interceptor.js';
export type { ControllerOptions } from './http/webhooks.controller.js';
export { EventDispatcher } from './inbox/event.dispatcher.js';
export type { Verdict } from './inbox/answers.js';
export type { VerifiedDelivery } from './inbox/delivery.js';
export { Backfills } from './inbox/catch-up/backfills.js';
export type { BackfillOptions, BackfillReport } from './inbox/catch-up/backfills.js';
export { Inbox } from './inbox/inbox.js';
export type { ReceivedRequest } from './inbox/inbox.js';
export { Rejections } from './inbox/rejections.js';
export { StartupReconciler, type ReconcileOptions } from './inbox/catch-up/startup.reconciler.js';
export type { ReconcileReport } from './inbox/catch-up/startup.reconciler.js';
export type { RecordReport } from './inbox/catch-up/record.reconciler.js';
export { Outbox, type CancelOutcome } from './outbox/enqueue/outbox.js';
export type { OutboxEnqueueOptions } from './outbox/enqueue/outbox.js';
export { OutboxRelay } from './outbox/relay/outbox.relay.js';
export type { TickReport } from './outbox/relay/tick-report.js';
export { CallBacks } from './operator/call-backs.js';
export { Parked } from './operator/parked.js';
export { Pauses } from './operator/pauses.js';
export type { BulkOptions } from './operator/replay/bulk.options.js';
export type { ForwardSignature } from './operator/replay/signed-anew.js';
export type { ForwardOptions, ForwardReport, NotForwarded } from './operator/replay/forwarder.js';
export { Replays } from './operator/replay/replays.js';
export type { ReplayOptions, ReplayReport, ReplaySelection } from './operator/replay/replays.js';
export type { PlannedEffect, PlannedRun, ReplayPlan } from './operator/replay/replay.planner.js';
export { Erasure } from './operator/erasure.js';
export type { ErasedWork, ErasureOptions, ErasureReport } from './operator/erasure.js';
export { Retention, type PruneOptions } from './operator/retention.js';
export type { RetentionReport } from './operator/retention.js';
export { WebhookHealth } from './operator/webhook-health.js';
export type { HealthResult, ReadinessOptions } from './operator/webhook-health.js';
export { Revivals } from './operator/revivals.js';

export type { Decider } from './core/decider.js';
export type { ParkedDecision } from './storage/desk/decision.store.js';
export type { Destination } from './storage/destination.store.js';
export type { Pause, PauseKind } from './storage/pause.store.js';
export type { NamedEffect, NewEffects } from './storage/leased-rows.js';
export type { EventCriteria } from './storage/desk/replay.store.js';
export { Inspector } from './operator/inspector.js';
export type {
  InspectedEvent,
  InspectedInstance,
  InspectedRelays,
  InspectedSecret,
  InspectedSource,
} from './operator/inspector.js';
export { Operator } from './operator/operator.js';
export { Stats } from './operator/stats.js';
export type { Overview, Range, SourceRates, Step } from './operator/stats.js';
export { migrate } from './storage/schema/migrate.js';
export { webhookEntities, WebhookEventView, WebhookWorkView } from './storage/schema/view-entities.js';
export type { EntityOptions } from './storage/schema/view-entities.js';
export { WebhookLifecycle } from './core/telemetry/lifecycle-events.js';
export type {
  LifecycleEvents,
  LifecycleListener,
  LifecycleOfEvent,
  LifecycleOfRow,
} from './core/telemetry/lifecycle-events.js';
export { outsideTransaction } from './storage/postgres/user-gate.js';

export type { Alert, OnAlert } from './core/telemetry/alert.js';
export type { Around, RunInfo } from './core/around.js';
export type { Answer } from './core/answer.js';
export type { Classifier } from './core/classify.js';
export type { SourceRetention } from './core/options/source.js';
export type { Duration } from './core/options/duration.js';
export {
  ConfigurationError,
  EffectKeyRequired,
  EventIdUnusable,
  InputRefused,
  PermanentError,
  RetryAfter,
  SignatureRejection,
  WebhookInboxError,
} from './core/errors.js';
export type { ErrorCode, RejectionReason } from './core/errors.js';
export type { EventKey, WebhookEvent } from './core/event.js';
export type {
  AlertOptions,
  RejectionOptions,
  RelayOptions,
  RetentionOptions,
  TransportOptions,
  WebhooksOptions,
} from './core/options/options.js';
export type {
  EffectMessage,
  EngineReport,
  EffectTransport,
  EngineDelivery,
  Subscription,
  EngineVerdict,
} from './core/options/effect-transport.js';
export type {
  BusinessRecord,
  BusinessRecordPolicy,
  EffectOptions,
  HandlerOptions,
  RecordByEntity,
  RecordByFunction,
  Hydrate,
  OrderOptions,
  ProbeAnswer,
  ProbeContext,
  SkipStale,
  RetryOptions,
  WorkOptions,
} from './core/options/work-options.js';
export type { DeadReason, EventState, OutboxState, ParkedReason } from './core/states.js';
export type { StandardIssue, StandardResult, StandardSchema } from './core/options/standard-schema.js';

// Types that the results and parameters above are made of, so that an application's own declarations can name them.
export type { BodyReader } from './core/body.js';
export type {
  EventIdentity,
  Provider,
  ProviderNotes,
  ProviderRetries,
  Verification,
} from './core/provider.js';
export type { RequestHead, RequestHeaders, WebhookRequest } from './core/request.js';
export type { Source } from './core/options/resolve-source.js';
export type {
  Encoding,
  Secrets,
  SourceDefinition,
  SourcePolicies,
  TenantSecrets,
} from './core/options/source.js';
export type { BatchDecorator } from './handlers/on-webhook.decorator.js';
export type { Verified } from './inbox/delivery.verifier.js';
export type { RejectionSample } from './inbox/rejections.js';
export type { FilteredList } from './operator/event.filter.js';
export type { ListPage, ListView, TenantOfSource } from './operator/inspector.js';
export type { ClaimsMode, OpenTransaction } from './core/options/options.js';
export type { NotDead, RevivalPlan, RowProgress } from './operator/revivals.js';
export type { SecondLookReport } from './operator/explain/second-look.js';
export type { SecretVerdict } from './operator/explain/secret-verdict.js';
export type { HandlerCode } from './outbox/runs/handler.runner.js';
export type { WokenNames } from './outbox/wake/wake-up.js';
export type { Attempt, AttemptOutcome, RowAct } from './storage/desk/attempt.store.js';
export type { DeadSpread } from './storage/desk/dead.store.js';
export type { ToldAlert } from './storage/desk/alert.store.js';
export type { AuditEntry, AuditRow, PauseAct } from './storage/desk/audit.store.js';
export type { DeadGroup, DeadRow } from './storage/desk/dead.store.js';
export type { ListedRejection, Rejected } from './storage/desk/rejection.store.js';
export type {
  Backlog,
  HandedEffects,
  HeldLease,
  Instance,
  SeenInstance,
} from './storage/desk/relay.store.js';
export type { EventPage } from './storage/desk/search.store.js';
export type {
  Conflict,
  EffectRow,
  EventDetail,
  EventRow,
  ListedEvent,
  WorkRow,
} from './storage/desk/event.sql.js';

export * from './sources/index.js';
