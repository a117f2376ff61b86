import { BatchRunner } from './runs/batch.runner.js';
import { DeadLetters } from './runs/dead-letters.js';
import { DeliverySlots } from './slots/delivery-slots.js';
import { Destinations } from './runs/destinations.js';
import { DueRows } from './relay/due-rows.js';
import { EngineReports } from './engine/engine-reports.js';
import { Engines } from './engine/engines.js';
import { HandOver } from './engine/hand-over.js';
import { EffectDoubts } from './runs/effect-doubts.js';
import { EffectRunner } from './runs/effect.runner.js';
import { EnqueueStores } from './enqueue/run-enqueue.js';
import { EventPreparer } from './runs/event.preparer.js';
import { FailureSettler } from './runs/failure.settler.js';
import { GroupSettle } from './runs/group-settle.js';
import { HandlerSlots } from './slots/handler-slots.js';
import { HandlerRunner } from './runs/handler.runner.js';
import { HandOff } from './relay/hand-off.js';
import { HostTimers } from './host-timers.js';
import { JobRunner } from './relay/job.runner.js';
import { LeasePlan } from './relay/lease-plan.js';
import { Leaser } from './relay/leaser.js';
import { LoneStatements } from './runs/lone-statements.js';
import { Notifier } from './wake/notifier.js';
import { OrderKeys } from './enqueue/order-keys.js';
import { Outbox } from './enqueue/outbox.js';
import { OutboxRelay } from './relay/outbox.relay.js';
import { PausedNames } from './relay/paused-names.js';
import { LeasedWork } from './relay/leased-work.js';
import { RelayLoop } from './relay/relay.loop.js';
import { Solos } from './slots/solo.js';
import { RunTransactions } from './runs/run.transaction.js';
import { EffectSettler } from './runs/effect.settler.js';
import { StaleFilter } from './runs/stale.filter.js';
import { MismatchedRows } from './relay/mismatched-rows.js';
import { Takeover } from './takeover/takeover.js';
import { Turns } from './relay/turns.js';
import { UnreportedDeaths } from './runs/unreported-deaths.js';
import { WakeListener } from './wake/wake.listener.js';
import { WakeUp } from './wake/wake-up.js';

/** The providers of this folder, for the module. */
export const outboxProviders = [
  BatchRunner,
  DeadLetters,
  DeliverySlots,
  Destinations,
  DueRows,
  EffectDoubts,
  EffectRunner,
  EffectSettler,
  EngineReports,
  Engines,
  EnqueueStores,
  EventPreparer,
  FailureSettler,
  GroupSettle,
  HandlerRunner,
  HandlerSlots,
  HandOff,
  HandOver,
  HostTimers,
  JobRunner,
  LeasePlan,
  Leaser,
  LoneStatements,
  Notifier,
  OrderKeys,
  Outbox,
  OutboxRelay,
  PausedNames,
  RelayLoop,
  LeasedWork,
  RunTransactions,
  Solos,
  StaleFilter,
  MismatchedRows,
  Takeover,
  Turns,
  UnreportedDeaths,
  WakeListener,
  WakeUp,
];
