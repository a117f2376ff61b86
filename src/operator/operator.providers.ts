import { CallBacks } from './call-backs.js';
import { DeskChores } from './desk-chores.js';
import { DeskKeeper } from './desk.keeper.js';
import { DeskLists } from './desk-lists.js';
import { DeskWriter } from './desk-writer.js';
import { Erasure } from './erasure.js';
import { FormerSources } from './former-sources.js';
import { Forwarder } from './replay/forwarder.js';
import { Inspector } from './inspector.js';
import { Operator } from './operator.js';
import { Parked } from './parked.js';
import { Pauses } from './pauses.js';
import { RejectionExplainer } from './explain/rejection.explainer.js';
import { ReplayPlanner } from './replay/replay.planner.js';
import { Replays } from './replay/replays.js';
import { Retention } from './retention.js';
import { Revivals } from './revivals.js';
import { SecondLook } from './explain/second-look.js';
import { SignOfLife } from './sign-of-life.js';
import { SourceInspector } from './source.inspector.js';
import { Stats } from './stats.js';
import { Watch } from './watch.js';
import { WebhookHealth } from './webhook-health.js';

/** The providers of this folder, for the module. */
export const operatorProviders = [
  CallBacks,
  DeskChores,
  DeskKeeper,
  DeskLists,
  DeskWriter,
  Erasure,
  FormerSources,
  Forwarder,
  Inspector,
  Operator,
  Parked,
  Pauses,
  RejectionExplainer,
  ReplayPlanner,
  Replays,
  Retention,
  Revivals,
  SecondLook,
  SignOfLife,
  SourceInspector,
  Stats,
  Watch,
  WebhookHealth,
];
