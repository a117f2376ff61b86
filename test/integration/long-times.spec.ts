import { MAX_TIMER_MS } from '../../src/core/options/duration.js';
import { scripted, startInbox, type TestInbox } from './support/inbox.js';

const DAY_MS = 86_400_000;
const timers = { setTimeout: globalThis.setTimeout, setInterval: globalThis.setInterval };
const delays: number[] = [];
let inbox: TestInbox;

beforeAll(() => {
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const original = timers[name] as (...args: unknown[]) => unknown;
    Object.assign(globalThis, {
      [name]: (code: unknown, ms?: number, ...rest: unknown[]) => {
        delays.push(ms ?? 0);
        return original(code, ms, ...rest);
      },
    });
  }
});
afterAll(async () => {
  Object.assign(globalThis, timers);
  await inbox?.stop();
});

describe('case 47 durations beyond what a timer of Node can hold', () => {
  it('set no timer that would fire at once: a year between polls, a lease of 30 days, a retry in a year', async () => {
    let runs = 0;
    let sends = 0;
    inbox = await startInbox({
      loop: true,
      webhooks: { relay: { pollInterval: '365d', lease: '30d', shutdownGrace: '365d' } },
      providers: [
        scripted(
          {
            handle: async (_, { enqueue }) => {
              runs += 1;
              await enqueue('mail', {});
            },
            effect: () => {
              sends += 1;
              throw new Error('not now');
            },
          },
          {
            handler: { timeout: '365d' },
            effect: { timeout: '365d', retry: { base: '365d', cap: '365d' }, keyRetention: false },
          },
        ),
      ],
    });
    expect(await inbox.deliver('long')).toMatchObject({ status: 200 });
    const waiting = async () => {
      const [row] = await inbox.rows(`kind = 'effect' AND error IS NOT NULL`);
      return row;
    };
    for (let n = 0; n < 300 && (await waiting()) === undefined; n += 1)
      await new Promise((resolve) => timers.setTimeout(resolve, 50));
    const row = (await waiting())!;
    // Full jitter: anywhere within the year, and in a few seconds hardly ever.
    expect(row.state).toBe('pending');
    expect(row.due_at.getTime() - Date.now()).toBeLessThanOrEqual(365 * DAY_MS);
    expect([runs, sends]).toEqual([1, 1]);
    expect(delays.filter((ms) => ms > MAX_TIMER_MS)).toEqual([]);
    // The machinery did set long ones.
    expect(delays.some((ms) => ms > DAY_MS)).toBe(true);
  });
});
