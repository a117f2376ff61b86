import type { Definition, PlainDefinition } from '../command.js';
import { backfill } from './backfill.js';
import { dead, giveUp, revive } from './dead.js';
import { doctor } from './doctor.js';
import { erase } from './erase.js';
import { events, show } from './events.js';
import { migrateSql } from './migrate-sql.js';
import { cancel, decide, park } from './parked.js';
import { pause, resume } from './pauses.js';
import { prune } from './prune.js';
import { reconcile } from './reconcile.js';
import { replay } from './replay.js';
import { send } from './send.js';
import { sources } from './sources.js';
import { status } from './status.js';
import { tail } from './tail.js';

/** Every command, in the order of the help. */
export const commands: readonly (Definition<object> | PlainDefinition<object>)[] = [
  status,
  events,
  show,
  tail,
  sources,
  dead,
  revive,
  giveUp,
  park,
  decide,
  cancel,
  replay,
  pause,
  resume,
  erase,
  backfill,
  reconcile,
  prune,
  doctor,
  send,
  migrateSql,
];
