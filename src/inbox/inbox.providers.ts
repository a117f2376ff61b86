import { Backfills } from './catch-up/backfills.js';
import { Admission } from './admission.js';
import { Claimer } from './claimer.js';
import { Conflicts } from './conflicts.js';
import { DeliveryVerifier } from './delivery.verifier.js';
import { DeliveryRuns } from './delivery-runs.js';
import { RelayClaims } from './relay-claims.js';
import { EventDispatcher } from './event.dispatcher.js';
import { GapFinder } from './catch-up/gap.finder.js';
import { GroupCommit } from './group-commit.js';
import { Inbox } from './inbox.js';
import { InlineDispatcher } from './inline.dispatcher.js';
import { OwedRows } from './catch-up/owed-rows.js';
import { PausedWork } from './paused-work.js';
import { ProviderRetries } from './provider-retries.js';
import { RecordReconciler } from './catch-up/record.reconciler.js';
import { Rejections } from './rejections.js';
import { StartupReconciler } from './catch-up/startup.reconciler.js';

/** The providers of this folder, for the module. */
export const inboxProviders = [
  Backfills,
  Admission,
  Claimer,
  Conflicts,
  DeliveryVerifier,
  DeliveryRuns,
  EventDispatcher,
  GapFinder,
  RelayClaims,
  GroupCommit,
  Inbox,
  InlineDispatcher,
  OwedRows,
  PausedWork,
  ProviderRetries,
  RecordReconciler,
  Rejections,
  StartupReconciler,
];
