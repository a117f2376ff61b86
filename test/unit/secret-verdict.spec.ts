import { secretVerdict } from '../../src/operator/secret.verdict.js';

const now = new Date('2026-03-10T13:30:00Z');
const DAY = 86_400_000;
const ago = (ms: number) => new Date(now.getTime() - ms);
const facts = { configured: true, isLatest: false, windowMs: 3 * DAY } as const;

describe('the verdict on a secret', () => {
  it.each([
    [
      'an old one, within the retries',
      { lastAt: ago(2 * DAY) },
      'last used 2 days ago, the provider retries for 3 days: safe to remove from 2026-03-11 13:30 UTC',
    ],
    [
      'an old one, after the retries',
      { lastAt: ago(4 * DAY) },
      'last used 4 days ago, the provider retries for 3 days: safe to remove since 2026-03-09 13:30 UTC',
    ],
    ['the one in use', { lastAt: ago(0), isLatest: true }, 'in use, last used just now: keep it'],
    ['a new one', { lastAt: null }, 'not used yet: keep it until the provider signs with it'],
    [
      'one that was removed too early',
      { lastAt: ago(3_600_000), configured: false, isLatest: true, windowMs: DAY },
      'last used 1 hour ago, the provider retries for 1 day: no longer configured, so that a retry that it signed is refused until 2026-03-11 12:30 UTC',
    ],
    [
      'one that was removed in time',
      { lastAt: ago(4 * DAY), configured: false },
      'last used 4 days ago, the provider retries for 3 days: no longer configured, and nothing that it signed is missing since 2026-03-09 13:30 UTC',
    ],
    [
      'one that a function gave',
      { lastAt: ago(2 * DAY), configured: null },
      'last used 2 days ago, the provider retries for 3 days: safe to remove from 2026-03-11 13:30 UTC',
    ],
  ])('%s', (_what, secret, verdict) => {
    expect(secretVerdict({ ...facts, ...secret }, now).verdict).toBe(verdict);
  });
});
