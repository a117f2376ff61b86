import type { Outage, Sent } from '../play/log.js';
import type { Logs, Verdict } from './verdict.js';

/** Of all outages: at least so many hit leases that ran, and a claim that was not committed. Else the run has shown nothing. */
const SHARE = 0.5;
/** How long writes may be away when a standby takes over. A server that starts again takes what its recovery takes. */
const AWAY_MS = 10_000;

/** How long writes were away, and whether the outages hit work in flight. */
export function checkOutages({ outages, sent }: Pick<Logs, 'outages' | 'sent'>): Verdict {
  const faults: string[] = [];
  const away: number[] = [];
  const afterServer: number[] = [];
  for (const outage of outages) {
    const at = writtenAgain(outage, sent);
    if (at === undefined) {
      faults.push('writes never came back');
      continue;
    }
    away.push(at - outage.at);
    afterServer.push(Math.max(0, at - outage.backAt));
    if (outage.kind === 'promotion' && at - outage.at > AWAY_MS)
      faults.push(`writes were away for ${at - outage.at} ms`);
  }
  const leased = outages.filter((outage) => outage.leased > 0).length;
  const claiming = outages.filter((outage) => outage.claiming > 0).length;
  if (leased === 0 || leased < outages.length * SHARE)
    faults.push(`the run shows nothing: ${leased} of ${outages.length} outages hit a lease`);
  if (claiming === 0 || claiming < outages.length * SHARE)
    faults.push(`the run shows nothing: ${claiming} of ${outages.length} outages hit an open claim`);
  const sum = (of: (outage: Outage) => number) => outages.reduce((total, one) => total + of(one), 0);
  return {
    faults,
    figures: {
      outages: outages.length,
      openClaimsAtOutages: sum((outage) => outage.claiming),
      claimedAndUnanswered: sum((outage) => outage.unanswered),
      longestAwayMs: Math.max(0, ...away),
      longestAwayAfterServerMs: Math.max(0, ...afterServer),
    },
  };
}

/** When the first event was acknowledged that came in after the server had ended, and was new. */
function writtenAgain({ at }: Outage, sent: readonly Sent[]): number | undefined {
  const times = sent.filter((one) => one.at >= at && one.body.includes('"ok"')).map((one) => one.at + one.ms);
  return times.length === 0 ? undefined : times.reduce((least, one) => Math.min(least, one));
}
