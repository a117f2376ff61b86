import { checkClocks, isOutsideWindow } from '../chaos/check/clocks.js';
import { checkRaces, type RacedEvent, type RacedTables } from '../chaos/check/races.js';
import { checkOutages } from '../chaos/check/outages.js';
import type { LeaseFact, ProcessFacts } from '../chaos/check/tables.js';
import { checkTakeover } from '../chaos/check/takeover.js';
import type { Kill, Outage, Sent, SinkCall } from '../chaos/play/log.js';

// What judges the crash programme's runs must itself be able to say no.
const sent = (one: Partial<Sent>): Sent => ({
  source: 'own',
  id: 'a',
  status: 200,
  body: '{"status":"ok"}',
  at: 0,
  ms: 10,
  to: 'chaos-1',
  ...one,
});

describe('outages', () => {
  const outage = (one: Partial<Outage> = {}): Outage => ({
    kind: 'promotion',
    at: 1_000,
    backAt: 2_000,
    leased: 3,
    claiming: 1,
    begun: 0,
    unanswered: 1,
    ...one,
  });

  it('are over with the first new event that came in when the server had ended', () => {
    const log = [
      sent({ at: 900, ms: 5_000 }),
      sent({ at: 1_500, ms: 20, status: 503, body: '{"status":"unavailable"}' }),
      sent({ at: 1_600, body: '{"status":"duplicate"}' }),
      sent({ at: 2_100, ms: 400 }),
    ];
    expect(checkOutages({ outages: [outage()], sent: log })).toMatchObject({
      faults: [],
      figures: { longestAwayMs: 1_500, longestAwayAfterServerMs: 500 },
    });
  });

  it.each([
    ['writes were away for 10001 ms', [outage()], [sent({ at: 11_000, ms: 1 })]],
    ['writes never came back', [outage({ kind: 'stop' })], [sent({ at: 900 })]],
    ['the run shows nothing: 0 of 0 outages hit a lease', [], []],
    ['the run shows nothing: 0 of 1 outages hit a lease', [outage({ leased: 0 })], [sent({ at: 1_000 })]],
    [
      'the run shows nothing: 1 of 3 outages hit an open claim',
      [outage({ claiming: 0 }), outage(), outage({ claiming: 0 })],
      [sent({ at: 1_000 })],
    ],
  ])('%s', (fault, outages, log) => {
    expect(checkOutages({ outages, sent: log }).faults).toContain(fault);
  });

  it('of a server that starts again may take what its recovery takes', () => {
    const stop = outage({ kind: 'stop', backAt: 20_000 });
    expect(checkOutages({ outages: [stop], sent: [sent({ at: 20_000 })] }).faults).toEqual([]);
  });
});

describe('clocks', () => {
  const facts = (place: number, least: number, most = least): ProcessFacts => ({
    process: `chaos-${place} 1`,
    zone: `zone ${place}`,
    least,
    most,
    records: 2,
  });
  const ahead = facts(2, 10);
  const behind = facts(3, -10);
  const jumping = facts(0, -10, 10);
  const right = facts(1, 0);
  const refused = sent({ source: 'timed', status: 401, body: '{"status":"unauthorized"}', to: 'chaos-2' });

  it('that are off refuse signed times, and decide nothing else', () => {
    const { faults, figures } = checkClocks([ahead, behind, jumping, right], [refused, sent({})]);
    expect(faults).toEqual([]);
    expect(figures).toEqual({
      handledAhead: 2,
      handledBehind: 2,
      processesThatJumped: 1,
      timeZones: 4,
      signedTimesRefused: 1,
    });
  });

  it.each([
    ['none ahead', [behind, jumping, right]],
    ['none behind', [ahead, jumping, right]],
    ['none that jumped', [ahead, behind, right, facts(0, 0)]],
    ['one time zone', [ahead, behind, jumping, right].map((one) => ({ ...one, zone: 'UTC' }))],
  ])('show nothing with %s', (_, processes) => {
    expect(checkClocks(processes, [refused]).faults).toEqual([
      expect.stringMatching(/^the run shows nothing/),
    ]);
  });

  it('show nothing when no signed time was refused, and one that is off must not accept any', () => {
    const accepted = sent({ source: 'timed', to: 'chaos-3' });
    expect(checkClocks([ahead, behind, jumping, right], [accepted]).faults).toEqual([
      'the run shows nothing: no signed time was refused',
      'signed times accepted by clocks that are off: 1',
    ]);
  });

  it('excuse a refusal of the source whose time is signed, by a receiver that can be off', () => {
    expect(isOutsideWindow(refused)).toBe(true);
    expect(isOutsideWindow({ ...refused, to: 'chaos-0' })).toBe(true);
    expect(isOutsideWindow({ ...refused, to: 'chaos-1' })).toBe(false);
    expect(isOutsideWindow({ ...refused, source: 'own' })).toBe(false);
    expect(isOutsideWindow({ ...refused, status: 400 })).toBe(false);
  });
});

describe('takeover', () => {
  const kill = (owner: string, diedAt: number, others: Partial<Kill> = {}): Kill => ({
    at: 'anywhere',
    owner,
    diedAt,
    watchers: ['survivor'],
    leased: 1,
    claiming: 0,
    begun: 0,
    ...others,
  });
  const fact = (what: LeaseFact['what'], owner: string, at: number, id = owner): LeaseFact => ({
    id,
    what,
    owner,
    at,
  });
  /** The work of each goes on after so many milliseconds. */
  const after = (...times: readonly number[]) => ({
    kills: times.map((_, n) => kill(`p${n}`, 1_000)),
    leases: times.flatMap((ms, n) => [
      fact('taken', `p${n}`, 1_000 + ms - 2),
      fact('lost', `p${n}`, 1_000 + ms - 1),
      fact('attempt', 'survivor', 1_000 + ms, `p${n}`),
    ]),
  });

  it('is timed from a kill to the first new attempt of a row that the dead process held', () => {
    const { kills, leases } = after(1_200, 1_900);
    const before = fact('attempt', 'p0', 990, 'p0');
    const { faults, figures } = checkTakeover([before, ...leases], [...kills, kill('idle', 5)], true);
    expect(faults).toEqual([]);
    expect(figures).toMatchObject({
      killsWithWorkThatGoesOn: 2,
      watchedKills: 2,
      takeoverP50Ms: 1_900,
      leasesTaken: 2,
    });
  });

  it.each<[string, Partial<Kill>, Kill[]]>([
    ['nobody had seen the lock held', { watchers: [] }, []],
    ['the process that had was killed before it could take', {}, [kill('survivor', 3_000)]],
    ['it had lost its own session', {}, [kill('idle', 500, { cut: 'survivor', watchers: [] })]],
    ['it was cut off in that moment', { cut: 'survivor' }, []],
    ['the dead one had just lost its lock', {}, [kill('idle', 500, { cut: 'p0', watchers: [] })]],
  ])('is timed apart where %s', (_what, others, more) => {
    const { leases } = after(6_000);
    const { figures } = checkTakeover(leases, [kill('p0', 1_000, others), ...more], true);
    expect(figures).toMatchObject({ killsWithWorkThatGoesOn: 1, watchedKills: 0, unwatchedP95Ms: 6_000 });
  });

  it.each([
    ['from a process that lives', fact('taken', 'alive', 1_000)],
    ['from one before its death', fact('taken', 'p0', 999)],
  ])('may not be %s', (_what, taken) => {
    const { kills, leases } = after(1_200);
    expect(checkTakeover([taken, ...leases], kills, true).faults).toEqual([
      'leases taken from living processes: 1',
    ]);
  });

  it('is not to be missed, but behind a pooler', () => {
    const { kills, leases } = after(...Array.from({ length: 20 }, () => 2_001));
    const ended = leases.filter(({ what }) => what !== 'taken');
    expect(checkTakeover(leases, kills, true).faults).toEqual([]);
    expect(checkTakeover(ended, kills, false).faults).toEqual([]);
    expect(checkTakeover(ended, kills, true).faults).toEqual(['the run shows nothing: no takeover']);
  });
});

describe('races', () => {
  const raced = (one: Partial<RacedEvent> = {}): RacedEvent => ({
    source: 'own',
    eventId: 'a',
    handlers: 2,
    effects: 2,
    applied: 2,
    appliedExtra: 1,
    replays: 1,
    ...one,
  });
  const call = (one: Partial<SinkCall> = {}): SinkCall => ({
    sink: 'idempotent',
    key: 'k',
    source: 'own',
    eventId: 'a',
    applied: true,
    ...one,
  });
  const told = { kills: 1, freezes: 1, restarts: 1, replaysAsked: 1, begun: 0, migratedAt: 0 };
  const judge = (tables: Partial<RacedTables> = {}, calls = [call()]) =>
    checkRaces(
      { events: [raced()], notDone: [], leased: 0, settledBefore: 1, settledAfter: 1, ...tables },
      { sent: [sent({})], calls },
      told,
    ).faults;

  it('pass with an event that was applied as often as asked', () => {
    expect(judge()).toEqual([]);
  });

  it.each<[string, readonly string[]]>([
    ['lost', judge({ events: [raced({ applied: 0 })] })],
    ['applied more often', judge({ events: [raced({ applied: 3 })] })],
    ['without the later', judge({ events: [raced({ appliedExtra: 0 })] })],
    ['handler more often', judge({ events: [raced({ appliedExtra: 3 })] })],
    ['other handlers', judge({ events: [raced({ handlers: 1, effects: 1 })] })],
    ['other effects', judge({ events: [raced({ effects: 3 })] })],
    ['acknowledged without a claim', judge({ events: [raced({ eventId: 'b' })] }, [call({ eventId: 'b' })])],
    ['not done', judge({ notDone: [{ name: 'tell', state: 'dead' }] })],
    ['still leased', judge({ leased: 1 })],
    ['several keys', judge({}, [call(), call({ key: 'l' })])],
    ['effects lost', judge({}, [])],
    ['raw sink', judge({}, [call(), ...['a', 'a'].map((eventId) => call({ sink: 'raw', eventId }))])],
    ['shows nothing: replays', judge({ events: [raced({ applied: 1, replays: 0 })] })],
    ['shows nothing: settledAfter', judge({ settledAfter: 0 })],
  ])('say: %s', (fault, faults) => {
    expect(faults).toEqual([expect.stringContaining(fault)]);
  });
});
