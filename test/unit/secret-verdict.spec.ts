import { resolveSource } from '../../src/core/options/resolve-source.js';
import { fingerprint } from '../../src/inbox/delivery.verifier.js';
import { inspectedSecrets } from '../../src/operator/explain/inspected-secrets.js';
import { secretVerdict } from '../../src/operator/explain/secret-verdict.js';
import { hmac } from '../../src/sources/index.js';

const now = new Date('2026-03-10T13:30:00Z');
const DAY = 86_400_000;
const ago = (ms: number) => new Date(now.getTime() - ms);
const facts = { configured: true, isLatest: false, windowMs: 3 * DAY } as const;

describe('the verdict on a secret', () => {
  it.each([
    [
      'an old one, within the retries',
      { lastAt: ago(2 * DAY) },
      'last used 2 days ago, the provider retries for 3 days: safe to remove from 2026-03-11 13:30 UTC, unless it is used again',
    ],
    [
      'an old one, after the retries',
      { lastAt: ago(4 * DAY) },
      'last used 4 days ago, the provider retries for 3 days: safe to remove since 2026-03-09 13:30 UTC, unless another endpoint signs with it',
    ],
    [
      'an old one, at the moment when the retries end',
      { lastAt: ago(3 * DAY) },
      'last used 3 days ago, the provider retries for 3 days: safe to remove since 2026-03-10 13:30 UTC, unless another endpoint signs with it',
    ],
    ['the one in use', { lastAt: ago(0), isLatest: true }, 'in use, last used just now: keep it'],
    [
      'the one of a minute ago',
      { lastAt: ago(60_000), isLatest: true },
      'in use, last used 1 minute ago: keep it',
    ],
    ['a new one', { lastAt: null }, 'not used yet: keep it until the provider signs with it'],
    [
      'one that was removed too early',
      { lastAt: ago(3_600_000), configured: false, isLatest: true, windowMs: DAY },
      'last used 1 hour ago, the provider retries for 1 day: no longer configured; requests signed with it are refused, also retries until 2026-03-11 12:30 UTC',
    ],
    [
      'one that was removed in time',
      { lastAt: ago(4 * DAY), configured: false },
      'last used 4 days ago, the provider retries for 3 days: no longer configured; retries of its events ended at 2026-03-09 13:30 UTC, and new requests signed with it are refused',
    ],
    [
      'one that a function gave',
      { lastAt: ago(2 * DAY), configured: null },
      'last used 2 days ago, given by a function: ask its owner if it can be removed',
    ],
    [
      'one of a provider that does not say for how long it retries',
      { lastAt: ago(DAY / 2), windowMs: DAY, isAssumed: true },
      'last used 12 hours ago, the provider is assumed to retry for 1 day: safe to remove from 2026-03-11 01:30 UTC, unless it is used again',
    ],
  ])('%s', (_what, secret, verdict) => {
    expect(secretVerdict({ ...facts, ...secret }, now).verdict).toBe(verdict);
  });
});

const acme = (secrets: readonly string[]) =>
  hmac({ secrets, signatureHeader: 'X-Signature', idHeader: 'X-Id' });

describe('the secrets of a source', () => {
  const NEW = 'secret-verdict-new-key-0123456789abcdef';
  const OLD = 'secret-verdict-old-key-0123456789abcdef';
  const GONE = 'secret-verdict-gone-key-0123456789abcdef';

  it('are those of its configuration by their places, then those that were used and have gone', () => {
    const source = resolveSource('acme', acme([NEW, OLD]));
    const uses = [
      { source: 'acme', fingerprint: fingerprint(OLD), deliveries: 5, lastAt: ago(0) },
      { source: 'acme', fingerprint: fingerprint(GONE), deliveries: 3, lastAt: ago(DAY) },
      { source: 'other', fingerprint: fingerprint(NEW), deliveries: 9, lastAt: ago(0) },
    ];
    expect(inspectedSecrets(source, uses, now)).toMatchObject([
      { fingerprint: fingerprint(NEW), position: 1, configured: true, deliveries: 0, lastAt: null },
      { fingerprint: fingerprint(OLD), position: 2, configured: true, deliveries: 5 },
      { fingerprint: fingerprint(GONE), position: null, configured: false, deliveries: 3 },
    ]);
  });
});
