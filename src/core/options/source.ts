import type { Duration } from './duration.js';
import type { Provider } from '../provider.js';
import type { WebhookRequest } from '../request.js';
import type { Classifier } from '../classify.js';

/** The result of `stripe({ … })`, `hmac({ … })` and similar functions: a provider with this endpoint's secrets and policies. */
export interface SourceDefinition<TPayload = unknown> extends SourcePolicies {
  readonly provider: Provider;
  readonly secrets: Secrets;
  /** Carries the payload type to the handlers; never set. */
  readonly payload?: TPayload;
}

/**
 * Live secrets of a source, every one tried: keep the old one beside the new one while rotating.
 * A function may fetch them, and may name the tenant that the request belongs to; the tenant becomes part of the dedupe key.
 */
export type Secrets =
  readonly string[] | ((request: WebhookRequest) => TenantSecrets | Promise<TenantSecrets>);
/** Live secrets, and the tenant that they belong to. */
export type TenantSecrets =
  readonly string[] | { readonly secrets: readonly string[]; readonly tenant?: string };

/** Options every source takes. Durations are milliseconds, or text such as '30s', '4h', '30d'. */
export interface SourcePolicies {
  /**
   * Decides which side retries a failed handler. `own`: the delivery is acknowledged once claim and work are committed, and our relay
   * retries. `provider`: the answer waits for the handlers. A failure is answered 500, and the provider's redelivery runs it again.
   * @default 'own'
   */
  readonly retries?: 'own' | 'provider';
  /** How long an answer may wait for handlers under `retries: 'provider'` or `inline`. @default '8s' */
  readonly ackTimeout?: Duration;
  /** Attempts of a handler before its row is dead. @default 20 under `own`, 5 under `provider` and for routes with `@UseWebhook` */
  readonly maxAttempts?: number;
  /** Handlers of this source that run at once in one process. @default the relay's */
  readonly concurrency?: number;
  /** How far a signed timestamp may lie from now, past and future. @default the provider's, mostly '5m' */
  readonly tolerance?: Duration;
  /**
   * `accept`: a valid signature outside the window is a duplicate if its event is known, else 401.
   * @default 'accept' for providers whose retries repeat the first timestamp, else 'reject'
   */
  readonly staleDuplicates?: 'accept' | 'reject';
  /**
   * How to treat known bytes that come under a new id without a signature. `flag` records and alerts. `refuse` also drops them as a
   * duplicate. @default 'flag'
   */
  readonly suspectedReplays?: 'flag' | 'refuse';
  /** Largest accepted body in bytes, after decompression. @default the provider's, else 1048576 */
  readonly maxBytes?: number;
  /** Content-Encodings that are undone before verification. @default none: any encoding is answered 415 */
  readonly encodings?: readonly Encoding[];
  /**
   * How long claims are kept, by arrival, or that and the parts that go sooner. An event that comes after its claim has gone is a new one.
   * @default '30d', or the provider's retry window + 1 d where that is longer
   */
  readonly retention?: Duration | SourceRetention;
  /** Further headers to keep with the claim; never one that holds a secret. */
  readonly keepHeaders?: readonly string[];
  /** Further headers in which your sender sends a secret as it is, such as an API key. They are never stored. @default the provider's */
  readonly secretHeaders?: readonly string[];
  /**
   * Dotted paths of payloads by which the dashboard finds events: ['data.object.customer'], at most 8. Their values are kept in a table
   * with an index, from now on, and go with the body. @default none
   */
  readonly searchPaths?: readonly string[];
  /**
   * Names for the secrets, in their order, by which the dashboard distinguishes them: ['2026', 'old']. Never a part of a secret. @default
   * none
   */
  readonly secretHints?: readonly string[];
  /** Overrides whether a failure is transient or permanent, for all handlers of this source. */
  readonly classify?: Classifier;
}

/** Windows of a source, by arrival of the event. Nothing unsettled is ever touched; of dead and parked work everything is kept. */
export interface SourceRetention {
  /** Claims with their rows. @default '30d', or the provider's retry window + 1 d where that is longer */
  readonly claims?: Duration;
  /** Bodies and headers; without a body an event cannot be replayed. @default as long as the claims */
  readonly bodies?: Duration;
  /** Payloads and results of effects. @default as long as the claims */
  readonly effects?: Duration;
}

/** A Content-Encoding that a source may accept. */
export type Encoding = 'gzip' | 'deflate' | 'br';
