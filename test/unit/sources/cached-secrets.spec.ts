import { jest } from '@jest/globals';
import { ConfigurationError } from '../../../src/core/errors.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import { cachedSecrets, stripe, type CachedSecretsOptions } from '../../../src/sources/index.js';

const requestOf = (tenant: string): WebhookRequest => ({
  method: 'POST',
  url: `/hooks?tenant=${tenant}`,
  headers: RequestHeaders.from({}),
  rawBody: Buffer.from(''),
});

function counted(options: Partial<CachedSecretsOptions> = {}) {
  const loaded: string[] = [];
  const secrets = cachedSecrets({
    key: ({ url }) => new URLSearchParams(url.split('?')[1]).get('tenant') ?? undefined,
    load: (tenant) => {
      loaded.push(tenant);
      return { secrets: [`secret-of-${tenant}`], tenant };
    },
    ...options,
  });
  const get = async (tenant: string) => {
    if (typeof secrets !== 'function') throw new Error('expected a function');
    return secrets(requestOf(tenant));
  };
  return { loaded, secrets, get };
}

describe('secrets of many tenants', () => {
  beforeEach(() => jest.useFakeTimers());
  afterEach(() => jest.useRealTimers());

  it('are loaded when they are needed, once for all who wait, and again after their time', async () => {
    const { loaded, get, secrets } = counted({ ttl: '1m' });
    expect(stripe({ secrets }).secrets).toBe(secrets);
    expect(loaded).toEqual([]);
    const both = await Promise.all([get('a'), get('a')]);
    expect(both).toEqual([0, 1].map(() => ({ secrets: ['secret-of-a'], tenant: 'a' })));
    jest.advanceTimersByTime(59_999);
    await get('a');
    expect(loaded).toEqual(['a']);
    jest.advanceTimersByTime(2);
    await get('a');
    expect(loaded).toEqual(['a', 'a']);
  });

  it('are bounded in number and in loads, since whoever sends requests chooses the names', async () => {
    const { loaded, get } = counted({ maxEntries: 1, maxLoadsPerMinute: 2 });
    await get('a');
    await get('b');
    await expect(get('a')).rejects.toMatchObject({ reason: 'key-unavailable' });
    expect(loaded).toEqual(['a', 'b']);
  });

  it('stay those of tenants that exist, and are loaded again, whatever names are made up', async () => {
    const exists = (tenant: string) => tenant === 'a';
    const loaded: string[] = [];
    const load = (tenant: string) => (loaded.push(tenant), exists(tenant) ? ['s'] : []);
    const { get } = counted({ load, ttl: '30s', maxEntries: 2, maxLoadsPerMinute: 5 });
    const forge = () => Promise.allSettled(Array.from({ length: 10 }, async (_, i) => get(`forged-${i}`)));
    await get('a');
    await forge();
    await expect(get('a')).resolves.toEqual(['s']);
    jest.advanceTimersByTime(30_001);
    await forge();
    await expect(get('a')).resolves.toEqual(['s']);
    expect(loaded.filter(exists)).toHaveLength(2);
  });

  it('are refused for a request that names no tenant', async () => {
    const { get } = counted();
    for (const name of ['', 'x'.repeat(256)])
      await expect(get(name)).rejects.toMatchObject({ reason: 'unusable-key' });
  });

  it('are tried again after a load that failed', async () => {
    let fails = true;
    const { get } = counted({ load: () => (fails ? Promise.reject(new Error('down')) : ['s']) });
    await expect(get('a')).rejects.toMatchObject({ reason: 'key-unavailable' });
    fails = false;
    jest.advanceTimersByTime(1_001);
    await expect(get('a')).resolves.toEqual(['s']);
  });

  it('need a time that is one', () => expect(() => counted({ ttl: 'soon' })).toThrow(ConfigurationError));
});
