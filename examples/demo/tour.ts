/** A stop of the tour: where, and what there is to see and to do. */
export interface Stop {
  /** After the dashboard's address. */
  readonly at: string;
  readonly see: string;
}

/** What `leaveFaults` and the second release leave to look at. */
export const TOUR: readonly Stop[] = [
  {
    at: '#/dead',
    see: 'Dead letters by cause. revoke-grant has a mistake. Open its group: the place in the code is there, and each event has its history and body. Revive one: it dies again, and the outcome says so.',
  },
  {
    at: '#/effects?q=state%3Adead',
    see: 'The effect loyalty-points was refused. The receipt of the same event is done, and a revive does not send it again.',
  },
  {
    at: '#/effects?q=state%3Aparked',
    see: 'The bank did not answer in time: pay-out is in doubt. Decide: done, retry or dead.',
  },
  {
    at: '#/events?q=handler%3Aawardee%2Fship-order',
    see: "ship-order has no handler: the second release calls it dispatch-order. `was: ['ship-order']` on the new one takes the work over.",
  },
  {
    at: '#/sources?q=sesmetric',
    see: 'sesmetric still signs with its old secret. The day stands there on which it can be removed.',
  },
];

/** The tour as text, with whole addresses. */
export function tour(dashboard: string): string {
  const stops = TOUR.map(({ at, see }, nth) => `${nth + 1}. ${dashboard}${at}\n   ${see}`);
  return ['The dashboard in two minutes. Some events have failed on purpose:', ...stops].join('\n');
}
