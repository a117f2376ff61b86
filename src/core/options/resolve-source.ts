import { z } from 'zod';
import type { Classifier } from '../classify.js';
import { toMs, type Duration } from './duration.js';
import { ConfigurationError } from '../errors.js';
import type { Provider } from '../provider.js';
import { check, duration, headerName, positiveDuration } from './schema.js';
import type { Encoding, Secrets, SourceDefinition, SourceRetention } from './source.js';

/** A configured endpoint with every default filled in. */
export interface Source {
  readonly name: string;
  readonly provider: Provider;
  readonly secrets: Secrets;
  readonly retries: 'own' | 'provider';
  readonly ackTimeoutMs: number;
  readonly maxAttempts: number;
  /** Attempts of a route with `@UseWebhook`. The provider's redeliveries repeat it, also under `retries: 'own'`. */
  readonly routeMaxAttempts: number;
  readonly concurrency: number | undefined;
  readonly toleranceMs: number | undefined;
  readonly staleDuplicates: 'accept' | 'reject';
  readonly suspectedReplays: 'flag' | 'refuse';
  readonly maxBytes: number;
  readonly encodings: readonly Encoding[];
  /** Claims. */
  readonly retentionMs: number;
  /** Bodies and headers; at most as long as the claims, and so are effects. */
  readonly bodiesMs: number;
  readonly effectsMs: number;
  readonly keepHeaders: readonly string[];
  /** In lower case. */
  readonly secretHeaders: readonly string[];
  readonly searchPaths: readonly string[];
  /** By position of the secret. */
  readonly secretHints: readonly string[];
  readonly classify: Classifier | undefined;
}

const DAY_MS = 86_400_000;
const ASSUMED_RETRY_WINDOW_MS = DAY_MS;
const PROVIDER_ATTEMPTS = 5;
/** As a word of the dashboard's filter has it before its colon. */
const PATH = /^[A-Za-z0-9_$-]+(?:\.[A-Za-z0-9_$-]+)+$/;
const NAME = /^[a-z0-9][a-z0-9_-]{0,63}$/;

const A_SOURCE = 'expected the result of stripe({ … }), hmac({ … }) or another source function';
/** Times are signed in whole seconds, and other packages take this option in seconds. */
const tolerance = duration.refine((value) => (toMs(value) ?? Infinity) >= 1_000, {
  error: 'expected at least 1 second: a number is milliseconds',
});

const shape = {
  provider: z.custom<Provider>((value) => typeof value === 'object' && value !== null && 'verify' in value, {
    error: A_SOURCE,
  }),
  secrets: z.union([z.array(z.unknown()), z.custom<Secrets>((value) => typeof value === 'function')], {
    error: 'expected an array of secrets or a function of the request',
  }),
  payload: z.undefined().optional(),
  retries: z.enum(['own', 'provider']).optional(),
  ackTimeout: positiveDuration.optional(),
  maxAttempts: z.int().positive().optional(),
  concurrency: z.int().positive().optional(),
  tolerance: tolerance.optional(),
  staleDuplicates: z.enum(['accept', 'reject']).optional(),
  suspectedReplays: z.enum(['flag', 'refuse']).optional(),
  maxBytes: z.int().positive().optional(),
  encodings: z.array(z.enum(['gzip', 'deflate', 'br'])).optional(),
  retention: z
    .union([
      duration,
      z.strictObject({
        claims: duration.optional(),
        bodies: duration.optional(),
        effects: duration.optional(),
      }),
    ])
    .optional(),
  keepHeaders: z.array(headerName).optional(),
  secretHeaders: z.array(headerName).optional(),
  searchPaths: z
    .array(
      z
        .string()
        .max(255, 'expected at most 255 characters')
        .regex(PATH, "expected a dotted path such as 'data.object.customer'"),
    )
    .max(8, 'expected at most 8 paths')
    .optional(),
  secretHints: z.array(z.string().max(60)).max(5).optional(),
  classify: z.custom((value) => typeof value === 'function', { error: 'expected a function' }).optional(),
};
const schema = z.strictObject(shape, {
  error: ({ code }) => (code === 'invalid_type' ? A_SOURCE : undefined),
});

/** How long the provider goes on trying, in milliseconds. */
export function retryWindowMs(provider: Provider): number {
  return provider.retries.windowMs ?? ASSUMED_RETRY_WINDOW_MS;
}

/** @throws ConfigurationError */
export function resolveSource(name: string, definition: SourceDefinition): Source {
  const where = `sources.${name}`;
  if (!NAME.test(name)) {
    throw new ConfigurationError(
      `${where}: expected a name of lower-case letters, digits, '-' and '_' (1 to 64), received '${name}'`,
    );
  }
  check(schema, definition, where);
  const { provider } = definition;
  const secretHeaders = [...(provider.secretHeaders ?? []), ...(definition.secretHeaders ?? [])].map((one) =>
    one.toLowerCase(),
  );
  const keepHeaders = [...(provider.keepHeaders ?? []), ...(definition.keepHeaders ?? [])];
  const secret = keepHeaders.find((one) => secretHeaders.includes(one.toLowerCase()));
  if (secret !== undefined) {
    throw new ConfigurationError(
      `${where}.keepHeaders: expected no header that holds a secret, received '${secret}'`,
    );
  }
  if (typeof definition.secrets !== 'function') checkSecrets(provider, definition.secrets, where);
  const retries = definition.retries ?? 'own';
  return {
    name,
    provider,
    secrets: definition.secrets,
    retries,
    ackTimeoutMs: ms(definition.ackTimeout) ?? 8_000,
    maxAttempts: definition.maxAttempts ?? (retries === 'provider' ? PROVIDER_ATTEMPTS : 20),
    routeMaxAttempts: definition.maxAttempts ?? PROVIDER_ATTEMPTS,
    concurrency: definition.concurrency,
    toleranceMs: ms(definition.tolerance) ?? provider.toleranceMs,
    staleDuplicates:
      definition.staleDuplicates ?? (provider.retries.sameTimestamp === true ? 'accept' : 'reject'),
    suspectedReplays: definition.suspectedReplays ?? 'flag',
    maxBytes: definition.maxBytes ?? provider.maxBytes ?? 1024 * 1024,
    encodings: definition.encodings ?? [],
    ...retention(definition.retention ?? {}, provider, where),
    keepHeaders: ['content-type', 'user-agent', ...keepHeaders],
    secretHeaders,
    // Each once: its values are a key with their path.
    searchPaths: [...new Set(definition.searchPaths)],
    secretHints: definition.secretHints ?? [],
    classify: definition.classify,
  };
}

/** @throws ConfigurationError when a secret is missing, blank or cannot be the provider's; never shows one */
export function checkSecrets(provider: Provider, secrets: readonly string[], where: string): void {
  if (secrets.length === 0) {
    throw new ConfigurationError(
      `${where}.secrets: expected at least one secret, received none; without one nothing can be verified`,
    );
  }
  if (secrets.length > 5) {
    throw new ConfigurationError(
      `${where}.secrets: expected at most 5 live secrets, received ${secrets.length}`,
    );
  }
  for (const [index, secret] of secrets.entries()) {
    const fault =
      typeof secret !== 'string' || secret.trim() === ''
        ? `expected non-blank text, received ${typeof secret === 'string' ? 'blank text' : typeof secret}; is the environment variable set?`
        : provider.checkSecret?.(secret);
    if (fault !== undefined) throw new ConfigurationError(`${where}.secrets.${index}: ${fault}`);
  }
}

function retention(asked: Duration | SourceRetention, provider: Provider, where: string) {
  const windows = typeof asked === 'object' ? asked : { claims: asked };
  const retentionMs = claimWindow(windows.claims, provider, where);
  const within = (name: 'bodies' | 'effects') => {
    const windowMs = ms(windows[name]) ?? retentionMs;
    if (windowMs <= retentionMs) return windowMs;
    throw new ConfigurationError(
      `${where}.retention.${name}: expected at most the window of the claims, ${retentionMs / DAY_MS} days, since it is deleted with them; ` +
        `received ${windowMs / DAY_MS} days`,
    );
  };
  return { retentionMs, bodiesMs: within('bodies'), effectsMs: within('effects') };
}

function claimWindow(asked: Duration | undefined, provider: Provider, where: string): number {
  const resendMs = retryWindowMs(provider) + (provider.retries.manualResendMs ?? 0);
  const askedMs = ms(asked);
  if (askedMs === undefined) return Math.max(30 * DAY_MS, resendMs + DAY_MS);
  if (askedMs < resendMs) {
    throw new ConfigurationError(
      `${where}.retention: expected at least ${resendMs / DAY_MS} days, since ${provider.name} may send an event again for that long ` +
        `and it would be handled twice; received ${askedMs / DAY_MS} days`,
    );
  }
  return askedMs;
}

function ms(value: Duration | undefined): number | undefined {
  return value === undefined ? undefined : toMs(value);
}
