import type { Answer } from './answer.js';
import type { BodyReader } from './body.js';
import type { RequestHead, WebhookRequest } from './request.js';

/**
 * A vendor's scheme: how to verify, and where id, type and time are.
 * Implementations hold no secrets and no state but caches of public keys.
 */
export interface Provider {
  /** The vendor's name in lower case, as in `docs/sources.md`. */
  readonly name: string;
  /** Where the scheme is described. */
  readonly docs: string;
  /** The scheme in a few words, for `docs/sources.md`: 'HMAC-SHA256 hex of `${timestamp}.${body}`'. */
  readonly scheme: string;
  /** The facts that the signature covers. If it does not cover the id, anyone who has captured one request can send it under new ids. */
  readonly signed: { readonly id: boolean; readonly type: boolean; readonly time: boolean };
  readonly retries: ProviderRetries;
  /**
   * How far a signed timestamp may lie from now, in milliseconds, past and future alike.
   * Undefined when the scheme signs no time.
   */
  readonly toleranceMs?: number;
  /** How the vendor writes the time it signs: 'seconds', 'milliseconds', 'iso8601', …, for `docs/sources.md`. */
  readonly timeUnit?: string;
  /**
   * Event types that the vendor publishes. It may send others. A handler's type that is nearly one of them is logged at boot. @default
   * none, and nothing is logged
   */
  readonly types?: readonly string[];
  /** Largest body the vendor sends, in bytes, where it is above the default limit of a source. */
  readonly maxBytes?: number;
  /** Names of headers kept with the claim besides the content type and the user agent. Never one that holds a secret. */
  readonly keepHeaders?: readonly string[];
  /** Names, in lower case, of headers in which the vendor sends a secret as it is. They are never stored. @default none */
  readonly secretHeaders?: readonly string[];
  /**
   * The other side that `verify` may ask: the vendor for its keys, or a function of the application. Such a check is not repeated to
   * explain a refusal. @default none: `verify` uses hashes and configured keys only
   */
  readonly asks?: 'vendor' | 'application';
  /** Methods of the requests that carry events. @default ['POST'] */
  readonly methods?: readonly string[];

  /** Says why a configured secret cannot be right, or undefined. Asked at boot (or when a function returns secrets). */
  checkSecret?(secret: string): string | undefined;

  /** Says why a configured secret is probably not the vendor's, or undefined. It is logged at boot, and the boot goes on. */
  doubtSecret?(secret: string): string | undefined;

  /**
   * Refuses a request whose headers alone cannot be right, so that its body is not kept. Asked for the methods that carry events;
   * left out where the signature is in the body, and where a handshake by such a method has no signature.
   * @throws SignatureRejection the one that `verify` would throw
   */
  checkHead?(head: RequestHead): void;

  /**
   * Checks the signature over the raw bytes against each secret. It does not use the clock.
   * @throws SignatureRejection and nothing else
   */
  verify(request: WebhookRequest, secrets: readonly string[]): Verification | Promise<Verification>;

  /**
   * The events a verified request carries: one, or several for a batched body; none when it is no event (a ping without id).
   * An item of a batch without a usable id is `unusable`, so that it does not keep the others out.
   * @throws EventIdUnusable when a single event has no usable id
   */
  identify(request: WebhookRequest, body: BodyReader): EventIdentity[];

  /** The payload handed to handlers, from an event's stored bytes. @default JSON for JSON types and unknown ones, an object for forms, text otherwise */
  parse?(bytes: Buffer, contentType: string | undefined): unknown;

  /**
   * Answers a challenge of the vendor, verified where the vendor signs it. Undefined for any other request. `verified` says whether
   * `verify` accepted it. Then the first of `secrets` is the one that signed it. Anyone can send a challenge, so `verify` must refuse
   * everything that this answer signs.
   * @throws SignatureRejection
   */
  readonly handshake?: {
    readonly methods: readonly string[];
    /** The answer to a challenge; undefined for another request. */
    answer(request: WebhookRequest, secrets: readonly string[], verified: boolean): Answer | undefined;
    /**
     * As `answer`, where the application or the vendor has to be called first (Asana, SNS); asked when `answer` gave nothing.
     * @throws SignatureRejection
     */
    perform?(
      request: WebhookRequest,
      secrets: readonly string[],
      verified: boolean,
    ): Promise<Answer | undefined>;
  };

  /** The vendor's own acknowledgement where `{"status":"ok"}` will not do. */
  readonly ack?: Answer;
  /** The vendor's own refusal where the fixed 401 body will not do: Xero wants it empty. */
  readonly refusal?: Answer;
  /** How long the vendor waits for the answer, in milliseconds. Undefined when it does not say. */
  readonly ackTimeoutMs?: number;
  /** Facts about this vendor for people. docs/sources.md prints them. */
  readonly notes?: ProviderNotes;
}

/** Facts in words. */
export interface ProviderNotes {
  /** Where the preset event id comes from: '`id` of the body'. */
  readonly id?: string;
  /** Parts that differ between attempts, or that make the id less than perfect. */
  readonly unstable?: string;
  /** Which answers stop the vendor's retries, beside 2xx. */
  readonly stops?: string;
  /** The challenge and its answer. */
  readonly handshake?: string;
  /** Other surprising facts. */
  readonly more?: string;
  /** Facts for which no page of the vendor was at hand: check them before relying on them. */
  readonly unconfirmed?: string;
}

/** Whether, how and how long the vendor retries. */
export interface ProviderRetries {
  readonly automatic: boolean;
  /** From the first attempt to the last, in milliseconds. Undefined when unknown (24 h is assumed). */
  readonly windowMs?: number;
  /** How long after the event a person can have it sent again, in milliseconds. */
  readonly manualResendMs?: number;
  /** Whether a retry carries the same body bytes: then other bytes under a known id are a conflict. */
  readonly sameBytes: boolean;
  /**
   * Dotted paths of what a retry changes in an event's JSON. Where the id is signed, any other difference under a known id is a conflict.
   * Undefined where other bytes under a known id say nothing: they are counted only.
   */
  readonly changes?: readonly string[];
  /** Whether a retry carries the first attempt's timestamp and signature (then `staleDuplicates: 'accept'` is preset). */
  readonly sameTimestamp?: boolean;
}

/** The result of a right signature. */
export interface Verification {
  /** Index of the secret that verified, for rotation reports. */
  readonly secret: number;
  /** The signed time in milliseconds since 1970, where the scheme signs one. */
  readonly signedAt?: number;
  /** When the signature ends, in milliseconds since 1970, where the scheme says so (a JWT's `exp`). */
  readonly expiresAt?: number;
}

/** Id, type and time of one event of a verified request. */
export interface EventIdentity {
  /** The sender's id of the event, or its hash. It is never made on receipt. */
  readonly id: string;
  readonly type: string;
  readonly occurredAt?: Date;
  /** This event's part of a batched body: an exact slice of the bytes. @default the whole body */
  readonly body?: Buffer;
  /** Why the item of a batch has no usable id of its own: `id` is a hash of its content then, and its rows are dead. */
  readonly unusable?: string;
}
