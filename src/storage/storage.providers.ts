import { AlertStore } from './desk/alert.store.js';
import { AttemptStore } from './desk/attempt.store.js';
import { Audit } from './desk/audit.js';
import { AuditStore } from './desk/audit.store.js';
import { BoundedRead } from './postgres/bounded-read.js';
import { ClaimStore } from './claim.store.js';
import { DeadStore } from './desk/dead.store.js';
import { DoctorStore } from './desk/doctor.store.js';
import { DestinationStore } from './destination.store.js';
import { DecisionStore } from './desk/decision.store.js';
import { EffectStore } from './effect.store.js';
import { ErasureStore } from './desk/erasure.store.js';
import { EngineStore } from './engine/engine.store.js';
import { NamedLeaseStore } from './named-lease.store.js';
import { NotifyStore } from './notify.store.js';
import { OutboxStore } from './outbox.store.js';
import { PauseStore } from './pause.store.js';
import { RecordStore } from './record.store.js';
import { RejectionStore } from './desk/rejection.store.js';
import { RelayStore } from './desk/relay.store.js';
import { ReplayStore } from './desk/replay.store.js';
import { RetentionStore } from './desk/retention.store.js';
import { SearchStore } from './desk/search.store.js';
import { SettleStore } from './settle.store.js';
import { StatStore } from './desk/stat.store.js';
import { StrayQueries } from './postgres/stray-queries.js';
import { TakeoverStore } from './postgres/takeover.store.js';
import { TurnStore } from './turn.store.js';
import { WatermarkStore } from './watermark.store.js';

/** The providers of this folder, for the module. */
export const storageProviders = [
  AlertStore,
  AttemptStore,
  Audit,
  AuditStore,
  BoundedRead,
  ClaimStore,
  DeadStore,
  DoctorStore,
  DecisionStore,
  DestinationStore,
  EffectStore,
  EngineStore,
  ErasureStore,
  NamedLeaseStore,
  NotifyStore,
  OutboxStore,
  PauseStore,
  RecordStore,
  RejectionStore,
  RelayStore,
  ReplayStore,
  RetentionStore,
  SearchStore,
  SettleStore,
  StatStore,
  StrayQueries,
  TakeoverStore,
  TurnStore,
  WatermarkStore,
];
