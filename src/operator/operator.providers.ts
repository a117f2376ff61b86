import { AlertStore } from '../storage/desk/alert.store.js';
import { Audit } from '../storage/desk/audit.js';
import { AuditStore } from '../storage/desk/audit.store.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';
import { DeadStore } from '../storage/desk/dead.store.js';
import { RejectionStore } from '../storage/desk/rejection.store.js';
import { RelayStore } from '../storage/relay.store.js';
import { SearchStore } from '../storage/desk/search.store.js';
import { StatStore } from '../storage/desk/stat.store.js';
import { DeskKeeper } from './desk.keeper.js';
import { FormerSources } from './former-sources.js';
import { Inspector } from './inspector.js';
import { Operator } from './operator.js';
import { RejectionExplainer } from './explain/rejection.explainer.js';
import { SecondLook } from './explain/second-look.js';
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
