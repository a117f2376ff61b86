import { CLOCKS, type Clock } from '../play/clocks.js';
import type { Sent } from '../play/log.js';
import type { Verdict } from './verdict.js';
import type { ProcessFacts } from './tables.js';

/** As Stripe has it, and its source: how far a signed time may lie from a receiver's own. */
const WINDOW_MINUTES = 5;
/** A clock that is ten minutes off, less what a busy machine takes between two looks at clocks. */
const OFF_MINUTES = 9;

/** A refusal that the clock alone has brought about: the time is signed, and the receiver's own was far from it. */
export function isOutsideWindow({ source, status, to }: Sent): boolean {
  return status === 401 && source === 'timed' && (clockOf(to)?.minutes.some(isOff) ?? false);
}

/** Whether receivers were as far apart as they were to be, and what their clocks decided: signed times, and nothing else. */
export function checkClocks(processes: readonly ProcessFacts[], sent: readonly Sent[]): Verdict {
  const faults: string[] = [];
  const records = (of: readonly ProcessFacts[]) => of.reduce((total, one) => total + one.records, 0);
  const ahead = processes.filter(({ least }) => least > OFF_MINUTES);
  const behind = processes.filter(({ most }) => most < -OFF_MINUTES);
  const jumped = processes.filter(({ least, most }) => most - least > OFF_MINUTES);
  const zones = new Set(processes.map(({ zone }) => zone));
  if (zones.size < CLOCKS.length || [ahead, behind, jumped].some((some) => some.length === 0)) {
    faults.push(
      `the run shows nothing: of ${processes.length} processes in ${zones.size} time zones ` +
        `${ahead.length} were ahead, ${behind.length} behind, and ${jumped.length} have jumped`,
    );
  }
  const timed = sent.filter(({ source }) => source === 'timed');
  const refused = timed.filter(({ status }) => status === 401);
  const wrong = timed.filter(
    ({ status, to }) => status === 200 && clockOf(to)?.minutes.every(isOff) === true,
  );
  if (refused.length === 0) faults.push('the run shows nothing: no signed time was refused');
  if (wrong.length > 0) faults.push(`signed times accepted by clocks that are off: ${wrong.length}`);
  return {
    faults,
    figures: {
      handledAhead: records(ahead),
      handledBehind: records(behind),
      processesThatJumped: jumped.length,
      timeZones: zones.size,
      signedTimesRefused: refused.length,
    },
  };
}

const isOff = (minutes: number) => Math.abs(minutes) > WINDOW_MINUTES;

/** Receivers are named by their places. */
function clockOf(receiver: string): Clock | undefined {
  return CLOCKS[Number(receiver.split('-')[1])];
}
