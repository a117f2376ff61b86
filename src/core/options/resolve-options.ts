import { z } from 'zod';
import type { OnAlert } from '../telemetry/alert.js';
import type { Around } from '../around.js';
import { toMs } from './duration.js';
import { ConfigurationError } from '../errors.js';
import { refuseMisplaced } from './misplaced-options.js';
import type { ClaimsMode, OpenTransaction, RetentionOptions, WebhooksOptions } from './options.js';
import { resolveSource, type Source } from './resolve-source.js';
import { fn } from './function-schema.js';
import { resolveTransports, transportsSchema, type EngineRoute } from './resolve-transports.js';
import { atLeast, check, count, duration, positiveDuration, schemaName } from './schema.js';

/** Retention times in milliseconds that hold for every source. */
export interface RetentionAges {
  readonly effectsMs: number;
  readonly formerSourcesMs: number;
  readonly auditMs: number;
}

/** @param retention without it, as for a retention that is only called by hand, the defaults */
export function retentionAges(retention: RetentionOptions = {}): RetentionAges {
  return {
    effectsMs: toMs(retention.effects ?? '30d')!,
    formerSourcesMs: toMs(retention.formerSources ?? '30d')!,
    auditMs: toMs(retention.audit ?? '365d')!,
  };
}

/** The options with every default filled in and every duration in milliseconds. Made once, at boot. */
export interface ResolvedOptions {
  readonly sources: ReadonlyMap<string, Source>;
  readonly relay: false | ResolvedRelay;
  readonly transports: readonly EngineRoute[];
  readonly retention: false | (RetentionAges & { readonly schedule: string });
  readonly notify: boolean;
  readonly reconcile: boolean;
  readonly onAlert: OnAlert | undefined;
  readonly around: Around | undefined;
  readonly deadLetterThreshold: number;
  readonly alerts: {
    readonly backlogMs: number;
    readonly rejections: number;
    readonly duplicateRatio: number;
  };
  /** How long samples keep their bytes, in milliseconds; 0 for never. */
  readonly keepRejectionsMs: number;
  readonly byteBudget: number;
  readonly bodyTimeoutMs: number;
  readonly maxPending: number | false;
  readonly claimTimeoutMs: number;
  readonly groupCommit: boolean;
  readonly preparedStatements: boolean;
  readonly schema: string | undefined;
  readonly claims: ClaimsMode;
  readonly transaction: OpenTransaction | undefined;
}
export interface ResolvedRelay {
  readonly pollMs: number;
  readonly leaseMs: number;
  readonly handlers: number | undefined;
  readonly effects: number;
  readonly graceMs: number;
  /** `url` undefined: the DataSource's own settings. */
  readonly listen: false | { readonly url: string | undefined };
  readonly takeover: boolean;
  readonly handOff: boolean;
}

/** A lease is renewed at a third, by a statement of its own: a shorter one ends while it is being renewed. */
const MIN_LEASE_MS = 500;
/** Senders are far away, and a body that is sent again for its time costs more than one that is waited for. */
const MIN_BODY_TIMEOUT_MS = 1_000;
/** Of `WebhooksModule.forRoot`. */
export const optionsSchema = z.strictObject({
  sources: z.record(z.string(), z.unknown(), {
    error: `expected the endpoints by name, such as { stripe: stripe({ secrets: […] }) }`,
  }),
  relay: z
    .union([
      z.literal(false),
      z.strictObject({
        pollInterval: positiveDuration.optional(),
        lease: atLeast(MIN_LEASE_MS).optional(),
        handlers: count.optional(),
        effects: count.optional(),
        shutdownGrace: duration.optional(),
        listen: z.union([z.boolean(), z.strictObject({ url: z.string().min(1) })]).optional(),
        takeover: z.boolean().optional(),
        handOff: z.boolean().optional(),
      }),
    ])
    .optional(),
  transports: transportsSchema.optional(),
  retention: z
    .union([
      z.literal(false),
      z.strictObject({
        schedule: z.string().optional(),
        effects: duration.optional(),
        formerSources: duration.optional(),
        audit: duration.optional(),
      }),
    ])
    .optional(),
  notify: z.boolean().optional(),
  reconcile: z.boolean().optional(),
  onAlert: fn<OnAlert>().optional(),
  around: fn<Around>().optional(),
  deadLetterThreshold: count.optional(),
  alerts: z
    .strictObject({
      backlogAge: duration.optional(),
      rejectionsPerMinute: count.optional(),
      duplicateRatio: z.number().gt(0).lte(1).optional(),
    })
    .optional(),
  rejections: z.strictObject({ keep: z.union([z.literal(false), duration]).optional() }).optional(),
  byteBudget: count.optional(),
  bodyTimeout: atLeast(MIN_BODY_TIMEOUT_MS).optional(),
  maxPending: z.union([z.literal(false), count]).optional(),
  claimTimeout: positiveDuration.optional(),
  groupCommit: z.boolean().optional(),
  preparedStatements: z.boolean().optional(),
  schema: schemaName.optional(),
  claims: z.enum(['auto', 'typeorm', 'message']).optional(),
  transaction: fn<OpenTransaction>().optional(),
});

/** @throws ConfigurationError with the option's path, the expected and the received value */
export function resolveOptions(options: WebhooksOptions): ResolvedOptions {
  refuseMisplaced(options);
  check(optionsSchema, options, 'WebhooksModule options');
  const sources = new Map(
    Object.entries(options.sources).map(([name, definition]) => [name, resolveSource(name, definition)]),
  );
  const relay = options.relay ?? {};
  return {
    sources,
    relay: relay !== false && {
      pollMs: toMs(relay.pollInterval ?? '1s')!,
      leaseMs: toMs(relay.lease ?? '30s')!,
      handlers: relay.handlers,
      effects: relay.effects ?? 20,
      graceMs: toMs(relay.shutdownGrace ?? '10s')!,
      listen: relay.listen !== false && {
        url: typeof relay.listen === 'object' ? relay.listen.url : undefined,
      },
      takeover: relay.takeover ?? true,
      handOff: relay.handOff ?? true,
    },
    transports: resolveTransports(options.transports),
    retention: options.retention !== false && {
      schedule: options.retention?.schedule ?? '17 3 * * *',
      ...retentionAges(options.retention),
    },
    notify: options.notify ?? true,
    reconcile: options.reconcile ?? true,
    onAlert: options.onAlert,
    around: options.around,
    deadLetterThreshold: options.deadLetterThreshold ?? 10,
    alerts: {
      backlogMs: toMs(options.alerts?.backlogAge ?? '5m')!,
      rejections: options.alerts?.rejectionsPerMinute ?? 60,
      duplicateRatio: options.alerts?.duplicateRatio ?? 0.9,
    },
    keepRejectionsMs: options.rejections?.keep ? toMs(options.rejections.keep)! : 0,
    byteBudget: options.byteBudget ?? 64 * 1024 * 1024,
    bodyTimeoutMs: toMs(options.bodyTimeout ?? '30s')!,
    maxPending: options.maxPending ?? false,
    claimTimeoutMs: toMs(options.claimTimeout ?? '5s')!,
    groupCommit: options.groupCommit ?? true,
    preparedStatements: options.preparedStatements ?? true,
    schema: options.schema,
    claims: options.claims ?? 'auto',
    transaction: options.transaction,
  };
}

/** @throws ConfigurationError in a process that runs nothing */
export function runningRelay({ relay }: ResolvedOptions): ResolvedRelay {
  if (relay !== false) return relay;
  throw new ConfigurationError(
    'WebhooksModule has `relay: false`: this process runs no rows. Leave `relay` out to run rows, in tests too',
  );
}
