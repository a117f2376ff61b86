import * as fc from 'fast-check';
import {
  decide,
  deliver,
  end,
  erase,
  expire,
  forget,
  hoursPass,
  pause,
  prune,
  replay,
  revive,
  round,
  type Command,
} from './commands.js';
import { ENDS, EVENTS, UNITS, type Effect, type InboxModel, type Outcome } from './inbox.model.js';

const ROWS = EVENTS.length * UNITS.length;

const event = fc.constantFrom(...EVENTS);
const relay = fc.nat({ max: 1 });
const nth = fc.nat({ max: 8 });
const target = fc.constantFrom('source' as const, ...UNITS);

const outcome = fc.oneof(
  { weight: 6, arbitrary: fc.constant<Outcome>('done') },
  { weight: 4, arbitrary: fc.constant<Outcome>('hangs') },
  { weight: 4, arbitrary: fc.constantFrom<Outcome>('fails', 'fails', 'refused', 'permanent') },
);
/** Often all of them meet the same: only what happens to a row again and again uses its attempts up. */
const outcomes = fc.oneof(
  fc.array(outcome, { minLength: ROWS, maxLength: ROWS }),
  outcome.map((one) => Array.from({ length: ROWS }, () => one)),
);

const KINDS: readonly { readonly weight: number; readonly arbitrary: fc.Arbitrary<Command> }[] = [
  { weight: 6, arbitrary: fc.tuple(event, fc.nat({ max: 1 }), relay).map((args) => deliver(...args)) },
  { weight: 30, arbitrary: fc.tuple(relay, outcomes).map((args) => round(...args)) },
  { weight: 5, arbitrary: fc.tuple(nth, fc.constantFrom(...ENDS)).map((args) => end(...args)) },
  { weight: 16, arbitrary: fc.option(nth, { nil: undefined }).map(expire) },
  { weight: 10, arbitrary: fc.constant(null).map(hoursPass) },
  {
    weight: 8,
    arbitrary: fc
      .tuple(event, fc.constantFrom<Effect | undefined>(undefined, 'mail', 'charge'), relay)
      .map((args) => replay(...args)),
  },
  { weight: 4, arbitrary: nth.map(revive) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(nth, fc.constantFrom('retry' as const, 'done' as const, 'dead' as const))
      .map((args) => decide(...args)),
  },
  { weight: 2, arbitrary: fc.tuple(target, relay).map(([what, at]) => pause(what, 'pause', at)) },
  { weight: 3, arbitrary: fc.tuple(target, relay).map(([what, at]) => pause(what, 'resume', at)) },
  { weight: 2, arbitrary: event.map(forget) },
  { weight: 1, arbitrary: fc.tuple(event, relay).map((args) => erase(...args)) },
  { weight: 1, arbitrary: fc.tuple(event, relay).map((args) => prune(...args)) },
];

/** What can happen, the usual more often than the rare. */
export function sequences(maxCommands: number): fc.Arbitrary<Iterable<Command>> {
  const weighted = KINDS.flatMap(({ weight, arbitrary }) => Array.from({ length: weight }, () => arbitrary));
  return fc.commands(weighted, { maxCommands, size: 'max' });
}

/** Everybody comes to rest: what hangs ends, what is paused goes on, and rounds follow until nothing is owed. */
export function* rest(model: InboxModel): Generator<Command> {
  while (model.held.length > 0) yield end(0, 'done');
  for (const what of ['source', ...UNITS] as const) yield pause(what, 'resume', 0);
  for (let n = 0; model.pending().length > 0; n += 1) {
    if (n > 30) throw new Error(`model: still owed after ${n} rounds: ${JSON.stringify(model.pending())}`);
    yield hoursPass();
    yield round(n % 2, []);
  }
}

const every = (...ofEach: Outcome[]) => EVENTS.flatMap(() => ofEach);
const handling = (one: Outcome) => every(one, 'done', 'done');
const mailing = (one: Outcome) => every('done', one, 'done');
const charging = (one: Outcome) => every('done', 'done', one);

/** Ways that chance seldom takes, so that each run of the test has been there. */
export const RARE: Readonly<Record<string, readonly Command[]>> = {
  'a handler whose attempts are lost, one process after the other, and whose event comes again': [
    deliver('a', 0, 0),
    round(0, handling('hangs')),
    expire(),
    round(1, handling('hangs')),
    end(0, 'done'),
    expire(),
    round(0, handling('hangs')),
    end(0, 'done'),
    expire(),
    round(1, []),
    end(0, 'fails'),
    deliver('a', 0, 1),
    round(0, []),
    round(1, []),
    deliver('a', 1, 1),
  ],
  'a handler that fails, is lost in between, and fails': [
    deliver('a', 0, 0),
    round(0, handling('fails')),
    hoursPass(),
    round(0, handling('hangs')),
    expire(),
    round(1, handling('fails')),
    hoursPass(),
    round(1, handling('fails')),
    revive(0),
    round(1, handling('permanent')),
    replay('a', undefined, 0),
    round(1, []),
    end(0, 'done'),
  ],
  'an effect in doubt whose end comes late': [
    pause('charge', 'pause', 0),
    deliver('b', 0, 0),
    round(0, []),
    pause('charge', 'resume', 1),
    round(0, charging('refused')),
    hoursPass(),
    round(1, charging('refused')),
    hoursPass(),
    round(1, charging('hangs')),
    expire(),
    round(0, []),
    end(0, 'done'),
    pause('charge', 'pause', 0),
    replay('b', 'charge', 1),
    round(0, []),
    pause('charge', 'resume', 1),
    round(0, charging('hangs')),
    expire(),
    round(1, []),
    end(0, 'done'),
    decide(0, 'retry'),
    round(0, charging('fails')),
    decide(0, 'dead'),
    revive(0),
    round(1, []),
  ],
  'effects that use their attempts up, one whose key is forgotten, and an event that is erased': [
    pause('mail', 'pause', 0),
    deliver('c', 0, 1),
    round(1, []),
    pause('mail', 'resume', 0),
    round(1, []),
    replay('c', 'mail', 0),
    pause('mail', 'pause', 1),
    round(1, []),
    pause('mail', 'resume', 1),
    round(1, mailing('refused')),
    hoursPass(),
    round(0, mailing('fails')),
    hoursPass(),
    round(1, mailing('refused')),
    revive(0),
    forget('c'),
    round(0, []),
    decide(0, 'retry'),
    round(1, mailing('hangs')),
    expire(),
    round(0, mailing('hangs')),
    end(0, 'done'),
    erase('c', 1),
    end(0, 'done'),
    deliver('c', 1, 0),
    prune('c', 0),
    deliver('c', 1, 0),
  ],
};
