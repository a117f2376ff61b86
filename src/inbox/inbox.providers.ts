import { Backfills } from './catch-up/backfills.js';
import { Admission } from './admission.js';
import { Claimer } from './claimer.js';
import { Conflicts } from './conflicts.js';
import { DeliveryVerifier } from './delivery.verifier.js';
import { DeliveryRuns } from './runs/delivery-runs.js';
import { RelayClaims } from './relay-claims.js';
import { EventDispatcher } from './event.dispatcher.js';
import { GapFinder } from './catch-up/gap.finder.js';
import { GroupCommit } from './group-commit.js';
import { Inbox } from './inbox.js';
import { InlineDispatcher } from './runs/inline.dispatcher.js';
import { OwedRows } from './catch-up/owed-rows.js';
import { PausedWork } from './runs/paused-work.js';
import { DeliveryClaims } from './runs/delivery-claims.js';
import { InlineRecovery } from './runs/inline-recovery.js';
import { Redeliveries } from './redeliveries.js';
import { ProviderRetries } from './runs/provider-retries.js';
import { RecordReconciler } from './catch-up/record.reconciler.js';
import { Rematch } from './catch-up/rematch.js';
import { Rejections } from './rejections.js';
import { StartupReconciler } from './catch-up/startup.reconciler.js';

/** The providers of this folder, for the module. */
export const inboxProviders = [
  Backfills,
  Admission,
  Claimer,
  Conflicts,
  DeliveryClaims,
  DeliveryVerifier,
  DeliveryRuns,
  EventDispatcher,
  GapFinder,
  RelayClaims,
  GroupCommit,
  Inbox,
  InlineDispatcher,
  InlineRecovery,
  OwedRows,
  PausedWork,
  ProviderRetries,
  RecordReconciler,
  Redeliveries,
  Rejections,
  Rematch,
  StartupReconciler,
];
