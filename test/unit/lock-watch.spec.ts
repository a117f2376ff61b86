import {
  ABSENT_MS,
  GRACE_MS,
  LockWatch,
  SILENT_MS,
  UNLOCKED_MS,
  unlockedMs,
} from '../../src/outbox/takeover/lock-watch.js';

type Seen = 'held' | 'free' | 'withdrawn' | 'registered anew, free' | 'registered anew, held';

/** Looks at one other process, each with the time between it and the one before. Returns after which of them it was believed dead. */
function deadAfter(...looks: readonly (readonly [ms: number, seen: Seen])[]): number | undefined {
  const watch = new LockWatch();
  let at = 0;
  for (const [nth, [ms, seen]] of looks.entries()) {
    at += ms;
    const lock = {
      owner: 'a',
      key: seen.startsWith('registered anew') ? '2' : '1',
      free: seen.endsWith('free'),
    };
    const dead = watch.observe(seen === 'withdrawn' ? [] : [lock], at, at);
    if (dead.length > 0) return nth + 1;
  }
  return undefined;
}

const free = (ms: number): [number, Seen] => [ms, 'free'];
const held = (ms = 0): [number, Seen] => [ms, 'held'];

describe('another process is believed dead', () => {
  it.each([
    ['once its lock, seen held, has been free for a second', [held(), free(0), free(GRACE_MS)], 3],
    ['not a millisecond sooner', [held(), free(0), free(GRACE_MS - 1)], undefined],
    ['not for a single look', [held(), free(60_000)], undefined],
    ['never while it holds it', [held(), held(60_000), held(60_000)], undefined],
    ['anew, where it has held it in between', [held(), free(0), held(500), free(0), free(999), free(1)], 6],
    ['after ten seconds, where this session has never seen it held', [free(0), free(ABSENT_MS)], 2],
    ['not a millisecond sooner than that', [free(0), free(ABSENT_MS - 1)], undefined],
    [
      'not where it has withdrawn its lock',
      [held(), free(0), [500, 'withdrawn'], free(0), free(GRACE_MS)],
      undefined,
    ],
    [
      'not by an earlier registration',
      [held(), free(0), [GRACE_MS, 'registered anew, free'], [GRACE_MS, 'registered anew, free']],
      undefined,
    ],
    [
      'by the last registration',
      [
        held(),
        [500, 'registered anew, held'],
        [0, 'registered anew, free'],
        [GRACE_MS, 'registered anew, free'],
      ],
      4,
    ],
  ] as const)('%s', (_when, looks, expected) => {
    expect(deadAfter(...looks)).toBe(expected);
  });

  it('each by itself', () => {
    const watch = new LockWatch();
    const lock = (owner: string, isFree: boolean) => ({ owner, key: owner, free: isFree });
    watch.observe([lock('a', false), lock('b', false)], 0, 0);
    watch.observe([lock('a', true), lock('b', false)], 0, 0);
    expect(watch.observe([lock('a', true), lock('b', true)], GRACE_MS, GRACE_MS)).toEqual([lock('a', true)]);
  });

  it('from the answer to its first free look until the question of the last', () => {
    const watch = new LockWatch();
    const lock = (isFree: boolean) => [{ owner: 'a', key: '1', free: isFree }];
    watch.observe(lock(false), 0, 0);
    watch.observe(lock(true), 0, 100);
    expect(watch.observe(lock(true), GRACE_MS, GRACE_MS + 500)).toEqual([]);
    expect(watch.observe(lock(true), GRACE_MS + 100, GRACE_MS + 600)).toHaveLength(1);
  });

  it('at most twice in a second: those waits are what the others are promised', () => {
    expect([GRACE_MS, ABSENT_MS]).toEqual([1_000, 10_000]);
  });
});

describe('a process whose session is lost', () => {
  // The server frees the lock when it has heard nothing for SILENT_MS, and another process takes the rows GRACE_MS later.
  it.each([0, 500, 1_999, 2_000, 2_500, 2_599])(
    'that notices it %i ms after the last answer stops its runs before another process can take them',
    (noticedMs) => {
      const runsForMs = unlockedMs(5_000, 5_000 + noticedMs);
      expect(noticedMs + runsForMs).toBeLessThan(SILENT_MS + GRACE_MS);
      expect(runsForMs).toBeLessThanOrEqual(UNLOCKED_MS);
    },
  );

  it('that stood still has time to withdraw its lock', () => {
    expect(unlockedMs(0, 60_000)).toBe(400);
  });

  it('has a tenth of a second less than the others wait, and the silence that the server is told of', () => {
    expect([UNLOCKED_MS, SILENT_MS]).toEqual([GRACE_MS - 100, 2_000]);
  });
});
