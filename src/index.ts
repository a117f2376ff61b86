export { WebhooksModule } from './webhooks.module.js';
export type { WebhooksModuleAsyncOptions, WebhooksModuleExtras } from './webhooks.module.js';

export { OnWebhook } from './handlers/on-webhook.decorator.js';
export { BackfillSource } from './handlers/backfill-source.decorator.js';
export type { BackfillContext, BackfillEvent, ListEvents } from './handlers/backfill-source.decorator.js';
export { OnEffect } from './handlers/on-effect.decorator.js';
export { UseWebhook } from './http/use-webhook.decorator.js';
export { Event, TxManager, type EventPart } from './http/route.params.js';
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
export type { Verdict } from './inbox/verdict.js';
export type { VerifiedDelivery } from './inbox/delivery.js';
export { Backfills } from './inbox/backfills.js';
export type { BackfillOptions, BackfillReport } from './inbox/backfills.js';
export { Inbox } from './inbox/inbox.js';
export type { ReceivedRequest } from './inbox/inbox.js';
export { Rejections } from './inbox/rejections.js';
export { StartupReconciler } from './inbox/startup.reconciler.js';
export type { ReconcileReport } from './inbox/startup.reconciler.js';
export type { RecordReport } from './inbox/record.reconciler.js';
export { Outbox } from './outbox/outbox.js';
export type { OutboxEnqueueOptions } from './outbox/outbox.js';
export { OutboxRelay } from './outbox/outbox.relay.js';
export type { TickReport } from './outbox/tick.report.js';
export { Parked } from './operator/parked.js';
export { Pauses } from './operator/pauses.js';
export type { BulkOptions } from './operator/bulk.options.js';
export type { ForwardOptions, ForwardReport, NotForwarded } from './operator/forwarder.js';
export { Replays } from './operator/replays.js';
export type { ReplayOptions, ReplayReport, ReplaySelection } from './operator/replays.js';
export type { PlannedEffect, PlannedRun, ReplayPlan } from './operator/replay.planner.js';
export { Erasure } from './operator/erasure.js';
export type { ErasedWork, ErasureOptions, ErasureReport } from './operator/erasure.js';
export { Retention } from './operator/retention.js';
export type { RetentionReport } from './operator/retention.js';
export { WebhookHealth } from './operator/webhook.health.js';
export type { HealthResult, ReadinessOptions } from './operator/webhook.health.js';
export { Revivals } from './operator/revivals.js';

export type { Decider } from './core/decider.js';
export type { ParkedDecision } from './storage/decision.store.js';
export type { Pause, PauseKind } from './storage/pause.store.js';
export type { NamedEffect, NewEffects } from './storage/leased.rows.js';
export type { EventCriteria } from './storage/replay.store.js';
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
export { migrate } from './storage/migrate.js';
export { webhookEntities, WebhookEventView, WebhookWorkView } from './storage/view.entities.js';
export type { EntityOptions } from './storage/view.entities.js';
export { WebhookLifecycle } from './core/lifecycle.events.js';
export type { LifecycleEvents } from './core/lifecycle.events.js';
export { outsideTransaction } from './storage/user.gate.js';

export type { Alert, OnAlert } from './core/alert.js';
export type { Around, RunInfo } from './core/around.js';
export type { Answer } from './core/answer.js';
export type { Classifier } from './core/classify.js';
export type { SourceRetention } from './core/source.js';
export type { Duration } from './core/duration.js';
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
  RejectionOptions,
  RelayOptions,
  RetentionOptions,
  RetryOptions,
  WebhooksOptions,
  WorkOptions,
} from './core/options.js';
export type { DeadReason, EventState, OutboxState, ParkedReason } from './core/states.js';
export type { StandardIssue, StandardResult, StandardSchema } from './core/standard-schema.js';

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
export type { Source } from './core/resolve-source.js';
export type { Encoding, Secrets, SourceDefinition, SourcePolicies, TenantSecrets } from './core/source.js';
export type { BatchDecorator } from './handlers/on-webhook.decorator.js';
export type { Verified } from './inbox/delivery.verifier.js';
export type { RejectionSample } from './inbox/rejections.js';
export type { NotDead } from './operator/revivals.js';
export type { SecondLookReport } from './operator/second.look.js';
export type { SecretVerdict } from './operator/secret.verdict.js';
export type { HandlerCode } from './outbox/handler.runner.js';
export type { WokenNames } from './outbox/wake-up.js';
export type { ToldAlert } from './storage/alert.store.js';
export type { AuditEntry, AuditRow } from './storage/audit.store.js';
export type { DeadGroup, DeadRow } from './storage/dead.store.js';
export type { ListedRejection, Rejected } from './storage/rejection.store.js';
export type { Backlog, HeldLease, Instance, SeenInstance } from './storage/relay.store.js';
export type {
  Conflict,
  EffectRow,
  EventDetail,
  EventPage,
  EventRow,
  ListedEvent,
  WorkRow,
} from './storage/search.store.js';

export * from './sources/index.js';
