import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../core/log/inbox.logger.js';
import type { Answer } from '../core/answer.js';
import { EventIdUnusable, SignatureRejection } from '../core/errors.js';
import { knownSource } from '../core/options/known-source.js';
import { errorText, logLine } from '../core/log/log.js';
import { Throttle } from '../core/log/throttle.js';
import { during, RequestHeaders, type WebhookRequest } from '../core/request.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { ANSWERS, answerTo, tooLarge, wrongMethod, type Verdict } from './answers.js';
import { deliveryFacts, type VerifiedDelivery } from './delivery.js';
import { DeliveryVerifier, maxBytesOf, methodsOf, type Verified } from './delivery.verifier.js';
import { EventDispatcher } from './event.dispatcher.js';
import { Rejections } from './rejections.js';

/** A request as `Inbox.receive` takes it. */
export interface ReceivedRequest {
  readonly method?: string;
  readonly url?: string;
  readonly headers: RequestHeaders | Readonly<Record<string, string | readonly string[] | undefined>>;
  /** The exact bytes that arrived. */
  readonly rawBody: Buffer;
}

/** Receives deliveries: over HTTP through the guard and the interceptor, or from anywhere by `receive`. */
@Injectable()
export class Inbox {
  private readonly logger = new InboxLogger();
  private readonly lines = new Throttle();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly verifier: DeliveryVerifier,
    private readonly dispatcher: EventDispatcher,
    private readonly rejections: Rejections,
    private readonly registry: HandlerRegistry,
  ) {}

  /**
   * Verifies and claims a delivery that did not come over this application's HTTP server: serverless functions, queues, tests. The
   * methods and `maxBytes` of the source hold here too.
   * @returns the answer for the provider; never throws for what the request holds
   * @throws WebhookInboxError UNKNOWN_SOURCE; ConfigurationError in an application that is not initialised
   */
  async receive(sourceName: string, received: ReceivedRequest): Promise<Answer> {
    this.registry.checkFilled();
    const source = knownSource(this.options, sourceName);
    const { method = 'POST', url = `/webhooks/${sourceName}`, headers, rawBody } = received;
    const methods = methodsOf(source);
    if (!methods.includes(method)) {
      this.rejections.add(source.name, 'wrong-method', wrongMethod(methods, method));
      return { ...ANSWERS.wrongMethod, headers: { allow: methods.join(', ') } };
    }
    const maxBytes = maxBytesOf(source, method);
    if (rawBody.length > maxBytes) {
      this.rejections.add(source.name, 'http-413', tooLarge(maxBytes, rawBody.length));
      return ANSWERS.tooLarge;
    }
    const request = {
      method,
      url,
      rawBody,
      headers: headers instanceof RequestHeaders ? headers : RequestHeaders.from(headers),
    };
    return this.serve(source, request);
  }

  /**
   * Verifies a request, claims its events, and returns the answer.
   * @param onVerified called before the delivery is claimed
   * @internal
   */
  serve(source: Source, request: WebhookRequest, onVerified?: () => void): Promise<Answer> {
    return during(request, this.answerRequest(source, request, onVerified));
  }

  private async answerRequest(
    source: Source,
    request: WebhookRequest,
    onVerified?: () => void,
  ): Promise<Answer> {
    let verified: Verified;
    try {
      verified = await this.verifier.verify(source, request);
    } catch (error) {
      return this.refuseUnverified(source, request, error);
    }
    if (verified.kind === 'handshake') return verified.answer;
    onVerified?.();
    return this.awaitAnswer(verified.delivery, this.dispatcher.dispatch(verified.delivery));
  }

  /** The verified request, or the answer that refuses it. @internal */
  async verify(source: Source, request: WebhookRequest): Promise<Verified | Answer> {
    try {
      return await during(request, this.verifier.verify(source, request));
    } catch (error) {
      return this.refuseUnverified(source, request, error);
    }
  }

  private refuseUnverified(source: Source, request: WebhookRequest, error: unknown): Answer {
    if (error instanceof SignatureRejection) return this.refuse(source, error, request);
    // Anyone can have a secrets function asked, and so make it fail.
    const line = this.lines.admit(source.name);
    const text = `the secrets could not be loaded, or a handshake failed: ${errorText(error)}`;
    if (line !== undefined) this.logger.error(logLine(text, { source: source.name, ...line }));
    return ANSWERS.unavailable;
  }

  /** Turns the verdict on a delivery, or what its body refused, into the answer. @internal */
  answer(delivery: VerifiedDelivery, dispatched: Promise<Verdict>): Promise<Answer> {
    return during(delivery.request, this.awaitAnswer(delivery, dispatched));
  }

  private async awaitAnswer(delivery: VerifiedDelivery, dispatched: Promise<Verdict>): Promise<Answer> {
    const { source } = delivery;
    try {
      return answerTo(await dispatched, source);
    } catch (error) {
      if (error instanceof EventIdUnusable) {
        this.rejections.add(source.name, 'unusable-event-id', error.message, delivery.request);
        return ANSWERS.invalid;
      }
      if (error instanceof SignatureRejection) return this.refuse(source, error);
      const text = `a delivery could not be dispatched, answered 503: ${errorText(error)}`;
      for (const facts of deliveryFacts(delivery)) this.logger.error(logLine(text, facts));
      return ANSWERS.unavailable;
    }
  }

  private refuse(source: Source, { reason, message }: SignatureRejection, request?: WebhookRequest): Answer {
    this.rejections.add(source.name, reason, message, request);
    // The only reason that another try can cure: a 401 would end the retries of a genuine event.
    if (reason === 'key-unavailable') return ANSWERS.unavailable;
    return source.provider.refusal ?? ANSWERS.unauthorized;
  }
}
