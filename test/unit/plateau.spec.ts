import { coursesOf, type Sample } from '../chaos/check/plateau.js';

const MB = 1024 * 1024;
const run = (name: string, of: (at: number) => number): Sample[] =>
  Array.from({ length: 60 }, (_, n) => ({ at: n / 60, values: { [name]: of(n / 60) } }));
const grows = (name: string, of: (at: number) => number) => coursesOf(run(name, of))[0]!.grows;

describe('the verdict of a soak', () => {
  it.each<[string, boolean, string, (at: number) => number]>([
    ['a table that is filled and then level', false, 'webhook_claim', (at) => Math.min(at, 0.2) * 50 * MB],
    ['a table that grows all the time', true, 'webhook_claim', (at) => at * 5 * MB],
    [
      'a table that a pinned snapshot makes larger once',
      false,
      'webhook_outbox',
      (at) => (at < 0.35 ? 3 : 8) * MB,
    ],
    ['a heap that grows by less than a tenth', false, 'heap', (at) => (200 + at * 20) * MB],
    ['a heap that leaks', true, 'heap', (at) => (40 + at * 60) * MB],
    ['an index too small to speak of', false, 'webhook_pause_pkey', (at) => at * 100_000],
    [
      'dead tuples that rise while they must be kept',
      false,
      'dead tuples',
      (at) => (at > 0.3 && at < 0.42 ? 90_000 : 4_000),
    ],
    ['dead tuples that nobody removes', true, 'dead tuples', (at) => at * 90_000],
    ['answers that take longer and longer', true, 'ack p50', (at) => at * 900],
    [
      'answers of a machine that was busy before',
      false,
      'ack p50',
      (at) => (at > 0.3 && at < 0.7 ? 100 : 600),
    ],
    ['pages of a lease that do not come back', true, 'buffers per lease', (at) => (at > 0.3 ? 900 : 30)],
  ])('%s (grows: %s)', (_, expected, name, of) => {
    expect(grows(name, of)).toBe(expected);
  });

  it('what was not measured in the end is not level', () => {
    const samples = run('heap', () => MB).filter(({ at }) => at < 0.6);
    expect(coursesOf(samples)).toMatchObject([{ name: 'heap', last: undefined, grows: true }]);
  });
});
