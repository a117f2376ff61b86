import { toMs, type Duration } from '../core/options/duration.js';
import { ConfigurationError, SignatureRejection } from '../core/errors.js';
import { outcomeOf } from '../core/lazy.js';
import type { WebhookRequest } from '../core/request.js';
import type { Secrets, TenantSecrets } from '../core/options/source.js';
import { RemoteKeys } from './keys/remote-keys.js';

/** Options of `cachedSecrets`. */
export interface CachedSecretsOptions {
  /** Whose request this is, from its URL or a header: a tenant's name; undefined refuses the request. Not verified yet. */
  readonly key: (request: WebhookRequest) => string | undefined;
  /** The secrets of a key, and the tenant it stands for. An empty list refuses the request. */
  readonly load: (key: string) => TenantSecrets | Promise<TenantSecrets>;
  /** How long secrets are used before they are loaded again. @default '1m' */
  readonly ttl?: Duration;
  /** Most keys that are remembered; the one used longest ago goes first. @default 1000 */
  readonly maxEntries?: number;
  /** Most loads in a minute, since any sender can choose the keys. @default 1000 */
  readonly maxLoadsPerMinute?: number;
}

/** Longest key, in characters. */
const MAX_KEY = 255;

/**
 * `secrets` of many tenants, loaded when they are needed: `stripe({ secrets: cachedSecrets({ key, load }) })`. One load
 * serves all who wait for it; a failed one is tried again after a second.
 * @throws ConfigurationError when `ttl` is no duration
 */
export function cachedSecrets(options: CachedSecretsOptions): Secrets {
  const ttlMs = toMs(options.ttl ?? '1m');
  if (ttlMs === undefined)
    throw new ConfigurationError(
      `cachedSecrets.ttl: expected a duration such as '1m', received '${options.ttl}'`,
    );
  const load = async (key: string) =>
    (await outcomeOf(() => options.load(key), 'cachedSecrets.load')) as TenantSecrets;
  const cache = new RemoteKeys(load, {
    ttlMs,
    failureTtlMs: 1_000,
    maxEntries: options.maxEntries ?? 1_000,
    maxPerMinute: options.maxLoadsPerMinute ?? 1_000,
  });
  return async (request) => {
    const key = options.key(request);
    if (key === undefined || key === '' || key.length > MAX_KEY)
      throw new SignatureRejection('unusable-key', 'the request names no tenant');
    const secrets = await cache.get(key);
    // A tenant that exists: names that were made up must not push it out.
    if (!isEmpty(secrets)) cache.trust(key, secrets);
    return secrets;
  };
}

function isEmpty(secrets: TenantSecrets): boolean {
  return ('secrets' in secrets ? secrets.secrets : secrets).length === 0;
}
