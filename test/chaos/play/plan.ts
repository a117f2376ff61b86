import { Random } from '../../../examples/sender/random.js';
import { POINTS, type Point, type When } from '../../support/fail-points.js';
import { SOURCES, type ChaosSource } from '../receiver/sources.js';

/** An event of a run, and how often its provider sends it although once would do. */
export interface PlannedEvent {
  readonly id: string;
  readonly source: ChaosSource;
  readonly resource: string;
  /** Sent so often at once. */
  readonly copies: number;
  /** Sent once more, long after it was acknowledged. */
  readonly again: boolean;
}

export interface PlannedKill {
  /** Which of the receivers that are up: the nth, modulo their number. */
  readonly victim: number;
  /** After the kill before it, and after enough receivers are up. */
  readonly pauseMs: number;
  /** Another one loses its LISTEN connection meanwhile, and lives on. */
  readonly cutsAnother: boolean;
  /** No other kill is near, so that it shows how soon the others take over. */
  readonly isAlone: boolean;
  /** Where it dies; undefined: wherever it is. */
  readonly at?: 'in a claim' | { readonly point: Point; readonly when: When; readonly nth: number };
}

export interface Plan {
  readonly events: readonly PlannedEvent[];
  readonly kills: readonly PlannedKill[];
}

/** The events that are planned are enough for as slow a machine as this: so many times as it takes at least. */
export const SLOW = 20;
const RESOURCES = 20;
/** Of a hundred kills; the others come at any moment. */
const AT_POINTS = 75;
/** Of a hundred kills, so many meet a moment in which another process has lost its lock. */
const CUTS = 30;
/** Of so many kills, one has no other near. */
const ALONE_EACH = 10;
/** Of so many kills, one hits a claim. It takes the server a millisecond: left to chance, a short run may hit hardly any. */
const CLAIM_EACH = 5;
/** Passed only by a receiver that is told to end. */
const NEVER_PASSED: readonly Point[] = ['release'];
const PASSED: readonly Point[] = POINTS.filter((point) => !NEVER_PASSED.includes(point));

/** What happens in a run, from its seed alone: whoever repeats the seed repeats the schedule. */
export function planOf(seed: number, kills: number, events: number): Plan {
  const random = new Random(seed);
  return {
    events: Array.from({ length: events }, (_, n) => ({
      id: `chaos-${seed}-${n}`,
      source: random.pick(SOURCES),
      resource: `resource-${random.int(1, RESOURCES)}`,
      copies: random.percent(20) ? random.int(2, 4) : 1,
      again: random.percent(15),
    })),
    kills: Array.from({ length: kills }, (_, n) => ({
      isAlone: n % ALONE_EACH === ALONE_EACH - 1,
      victim: random.int(0, 5),
      pauseMs: random.int(50, 600),
      cutsAnother: random.percent(CUTS),
      at: n % CLAIM_EACH === 0 ? 'in a claim' : pointOf(random),
    })),
  };
}

function pointOf(random: Random): PlannedKill['at'] {
  if (!random.percent(AT_POINTS)) return undefined;
  return { point: random.pick(PASSED), when: random.pick(['before', 'after']), nth: random.int(1, 2) };
}
