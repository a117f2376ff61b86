import { OVERDUE_MS } from '../play/flow.js';
import type { Kill, Sent, SinkCall } from '../play/log.js';
import { checkClocks, isOutsideWindow } from './clocks.js';
import { checkOutages } from './outages.js';
import { checkTakeover } from './takeover.js';
import type { ClaimFacts, Tables } from './tables.js';
import type { Faults, Logs, Verdict } from './verdict.js';

/** As the receivers of a run are configured; the loss that brings a row into the lane does not count. */
const MAX_ATTEMPTS = 30 + 1;
/** Of all kills: at least so many hit a leased row, and a claim that was not committed. Else the run has shown nothing. */
const LEASED_SHARE = 0.3;
const CLAIMING_SHARE = 0.1;
/** Too few to speak of shares. */
const FEW = 20;
/** A round of a relay is a timer and up to a dozen statements: so many times what a timer and two statements of the watch were late by. */
const LOOKS_OF_A_ROUND = 6;
/** Only faults end leases. Some are taken in their very moment, and a machine that is buried renews late: as many again by half, and these. */
const SPARE = 20;
const EXAMPLES = 5;

/** Everything that was promised, asked of what is left; and whether the run has shown anything. */
export function check(tables: Tables, logs: Logs, done: Faults, direct = true): Verdict {
  const verdicts = [checkPromises(tables, logs, done), checkTakeover(tables.leases, logs.kills, direct)];
  if (done === 'kills' || done === 'clocks') verdicts.push(checkKills(logs.kills));
  if (done === 'stops' || done === 'promotions') verdicts.push(checkOutages(logs));
  if (done === 'clocks') verdicts.push(checkClocks(tables.processes, logs.sent));
  return {
    figures: Object.assign({}, ...verdicts.map(({ figures }) => figures)) as Verdict['figures'],
    faults: verdicts.flatMap(({ faults }) => faults),
  };
}

function checkPromises(tables: Tables, logs: Logs, done: Faults): Verdict {
  // Retention has deleted claims meanwhile, so that only their records and the logs speak for those.
  const pruned = done === 'retention';
  const faults: string[] = [];
  const blame = (what: string, names: readonly string[]) => {
    if (names.length > 0) faults.push(`${what}: ${names.length} (${names.slice(0, EXAMPLES).join(', ')})`);
  };
  const { sent, calls } = logs;
  const claims = new Map(tables.claims.map((claim) => [nameOf(claim.source, claim.event_id), claim]));
  const acknowledged = new Set(sent.filter(isAck).map(({ source, id }) => nameOf(source, id)));
  const all = new Set(sent.map(({ source, id }) => nameOf(source, id)));

  const records = new Map(tables.records.map((one) => [nameOf(one.source, one.event_id), one.applied]));
  const lost = [...acknowledged].filter((name) => !records.has(name));
  const doubled = [...records].filter(([, applied]) => applied > 1).map(([name]) => name);

  blame(
    'acknowledged without a claim',
    [...acknowledged].filter((name) => !pruned && !claims.has(name)),
  );
  blame('acknowledged without a record', lost);
  blame('events applied more than once', doubled);
  blame(
    'never acknowledged',
    [...all].filter((name) => !acknowledged.has(name)),
  );
  blame(
    'answered otherwise',
    sent
      .filter((one) => isUnexpected(one) && !(done === 'clocks' && isOutsideWindow(one)))
      .map(({ source, status, body }) => `${source} ${status} ${body}`),
  );
  blame(
    'claims without their record',
    names(tables.claims, (claim) => claim.applied === null),
  );
  blame(
    'claims with other rows than owed',
    names(tables.claims, (claim) => claim.owed !== 1 || claim.handlers !== 1),
  );
  blame(
    'claims with other effects than enqueued',
    names(tables.claims, (claim) => claim.effects !== (claim.source === 'recalled' ? 2 : 1)),
  );
  blame(
    'claims with other effects called back than asked for',
    names(tables.claims, (claim) => claim.cancelled !== (claim.source === 'recalled' ? 1 : 0)),
  );
  blame(
    'claims completed other than once',
    names(tables.claims, (c) => c.source === 'completed' && c.completions !== 1),
  );
  if (!pruned && tables.strays > 0) faults.push(`records without a claim: ${tables.strays}`);
  blame(
    'rows that are not done',
    tables.notDone.map(({ name, state }) => `${name} ${state}`),
  );
  if (tables.leased > 0) faults.push(`rows still leased: ${tables.leased}`);
  if (tables.early > 0) faults.push(`rows leased before they were due: ${tables.early}`);
  if (tables.foreignTimes > 0) faults.push(`times that are not the database's: ${tables.foreignTimes}`);
  if (tables.attempts > MAX_ATTEMPTS)
    faults.push(`attempts of a row: ${tables.attempts}, and ${MAX_ATTEMPTS} are allowed`);

  const idempotent = calls.filter(({ sink }) => sink === 'idempotent');
  const raw = calls.filter(({ sink, applied }) => sink === 'raw' && applied);
  const applies = appliesOf(idempotent);
  const charges = appliesOf(raw);
  const rawEvents = (name: string) => name.startsWith('charged/');
  blame(
    'effects lost',
    [...acknowledged].filter((name) => !(rawEvents(name) ? charges : applies).has(name)),
  );
  blame(
    'effects doubled at the idempotent sink',
    [...applies].filter(([, keys]) => keys.length !== 1).map(([name]) => name),
  );
  blame(
    'raw effects under several keys',
    [...charges].filter(([, keys]) => new Set(keys).size !== 1).map(([name]) => name),
  );
  const extra = raw.length - charges.size;
  const begun = sum([...logs.kills, ...logs.outages].map((fault) => fault.begun));
  if (extra > begun) faults.push(`extra calls of the raw sink: ${extra}, and ${begun} were begun at faults`);

  const held = sum([...logs.kills, ...logs.outages].map((fault) => fault.leased));
  if (tables.lost > held + held / 2 + SPARE)
    faults.push(`leases lost: ${tables.lost}, and ${held} were held at faults`);

  const late = logs.overdue.filter(
    ({ ms, upMs, lookMs }) => Math.min(ms, upMs) > OVERDUE_MS + LOOKS_OF_A_ROUND * lookMs,
  );
  blame('leases that ended and that nobody took', [...new Set(late.map(({ id }) => id))]);

  return {
    faults,
    figures: {
      events: all.size,
      deliveries: sent.length,
      acknowledged: sent.filter(isAck).length,
      claims: claims.size,
      lostLeases: tables.lost,
      leasesHeldAtFaults: held,
      idempotentCalls: idempotent.length,
      idempotentApplies: applies.size,
      rawApplies: raw.length,
      rawExtra: extra,
      rawBegunAtFaults: begun,
      lost: lost.length,
      doubled: doubled.length,
      slowAnswerMs: slowAnswerMs(sent),
      slowestLookMs: Math.max(0, ...logs.overdue.map(({ lookMs }) => lookMs)),
      longestOverdueMs: Math.max(0, ...logs.overdue.map(({ ms, upMs }) => Math.min(ms, upMs))),
    },
  };
}

function checkKills(kills: readonly Kill[]): Verdict {
  const faults: string[] = [];
  const leased = kills.filter((kill) => kill.leased > 0).length;
  const claiming = kills.filter((kill) => kill.claiming > 0).length;
  if (kills.length >= FEW && leased < kills.length * LEASED_SHARE)
    faults.push(`the run shows nothing: ${leased} of ${kills.length} kills hit a leased row`);
  if (kills.length >= FEW && claiming < kills.length * CLAIMING_SHARE)
    faults.push(`the run shows nothing: ${claiming} of ${kills.length} kills hit an open claim`);

  const reached = new Set(kills.map(({ at }) => at).filter((at) => at !== 'anywhere'));
  return {
    faults,
    figures: {
      kills: kills.length,
      killsAtPoints: kills.filter(({ at }) => at !== 'anywhere').length,
      points: reached.size,
      killsWithLease: leased,
      killsInClaim: claiming,
    },
  };
}

const nameOf = (source: string, eventId: string) => `${source}/${eventId}`;
const isAck = ({ status }: Sent) => status >= 200 && status < 300;
const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);

/** What one in ten answers took, or longer. */
function slowAnswerMs(sent: readonly Sent[]): number {
  const times = sent.map(({ ms }) => ms).sort((a, b) => a - b);
  return times[Math.floor(times.length * 0.9)] ?? 0;
}

/** A provider meets a refused connection, 503 and, where it does the retries, 500. Nothing else. */
function isUnexpected({ status, source }: Sent): boolean {
  const failed = status === 500 && (source === 'patient' || source === 'routed');
  return !isAckStatus(status) && status !== 0 && status !== 503 && !failed;
}
const isAckStatus = (status: number) => status === 200;

function names(claims: readonly ClaimFacts[], isWrong: (claim: ClaimFacts) => boolean): string[] {
  return claims.filter(isWrong).map((claim) => nameOf(claim.source, claim.event_id));
}

/** The keys under which each event's effect was applied. */
function appliesOf(calls: readonly SinkCall[]): Map<string, string[]> {
  const applies = new Map<string, string[]>();
  for (const { applied, source, eventId, key } of calls) {
    if (!applied) continue;
    const name = nameOf(source, eventId);
    applies.set(name, [...(applies.get(name) ?? []), key]);
  }
  return applies;
}
