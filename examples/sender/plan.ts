import type { Random } from './random.js';
import type { SentEvent } from './sent.event.js';
import { signsTime } from './signatures.js';

/**
 * One request to make.
 * - genuine: as the provider sends it
 * - tampered: the body is changed after it was signed
 * - stale: signed too long ago
 */
export interface Delivery {
  readonly event: SentEvent;
  readonly kind: 'genuine' | 'tampered' | 'stale';
}

export interface Plan {
  readonly events: readonly SentEvent[];
  /** Everything at once, in no order. */
  readonly storm: readonly Delivery[];
  /** Sent again with a new signature when all of the storm has settled, as a person does from the provider's dashboard. */
  readonly late: readonly Delivery[];
}

/** Few events are sent that often: six times is the mean. */
const MOST_DELIVERIES = 20;

export function planOf(events: readonly SentEvent[], random: Random): Plan {
  const storm = events.flatMap((event): Delivery[] => {
    const genuine = Array.from(
      { length: random.int(1, random.int(1, MOST_DELIVERIES)) },
      () => 'genuine' as const,
    );
    const forged = [
      random.percent(25) ? (['tampered'] as const) : [],
      signsTime(event) && random.percent(25) ? (['stale'] as const) : [],
    ];
    return [...genuine, ...forged.flat()].map((kind) => ({ event, kind }));
  });
  const late = events.filter(() => random.percent(15)).map((event) => ({ event, kind: 'genuine' as const }));
  return { events, storm: random.shuffle(storm), late: random.shuffle(late) };
}
