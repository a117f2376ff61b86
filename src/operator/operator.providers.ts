import { AlertStore } from '../storage/alert.store.js';
import { Audit } from '../storage/audit.js';
import { AuditStore } from '../storage/audit.store.js';
import { BoundedRead } from '../storage/bounded.read.js';
import { DeadStore } from '../storage/dead.store.js';
import { RejectionStore } from '../storage/rejection.store.js';
import { RelayStore } from '../storage/relay.store.js';
import { SearchStore } from '../storage/search.store.js';
import { StatStore } from '../storage/stat.store.js';
import { DeskKeeper } from './desk.keeper.js';
import { FormerSources } from './former.sources.js';
import { Inspector } from './inspector.js';
import { Operator } from './operator.js';
import { RejectionExplainer } from './rejection.explainer.js';
import { SecondLook } from './second.look.js';
import { Stats } from './stats.js';
import { Watch } from './watch.js';

/** The operator's desk, for the module that wires everything. */
export const operatorProviders = [
  AlertStore,
  Audit,
  AuditStore,
  BoundedRead,
  DeadStore,
  RejectionStore,
  RelayStore,
  SearchStore,
  StatStore,
  DeskKeeper,
  FormerSources,
  Inspector,
  Operator,
  RejectionExplainer,
  SecondLook,
  Stats,
  Watch,
];
