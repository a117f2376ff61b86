import type { IncomingMessage } from 'node:http';
import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../core/log/inbox.logger.js';
import type { Answer } from '../core/answer.js';
import { logLine } from '../core/log/log.js';
import { Throttle } from '../core/log/throttle.js';
import {
  RequestHeaders,
  printableEncoding,
  targetOf,
  type RequestHead,
  type WebhookRequest,
} from '../core/request.js';
import type { Source } from '../core/options/resolve-source.js';
import { ANSWERS, tooLarge, wrongMethod } from '../inbox/answers.js';
import { methodsOf } from '../inbox/delivery.verifier.js';
import { Rejections } from '../inbox/rejections.js';
import { RefusedDelivery } from './answer.filter.js';
import { rawBodyOf } from './body/arrival.js';

const NO_BYTES = Buffer.alloc(0);

/** Makes webhook requests of HTTP requests. A request that is refused before its signature is checked is counted and explained. */
@Injectable()
export class WebhookRequests {
  private readonly logger = new InboxLogger();
  private readonly lines = new Throttle();

  constructor(private readonly rejections: Rejections) {}

  /**
   * @param url the target as received, before any rewriting
   * @param kept the bytes that Nest has kept under `rawBody: true`, for a body that this module did not read itself
   * @throws RefusedDelivery with the answer of the table in the README
   */
  of(source: Source, request: IncomingMessage, url: string, kept?: unknown): WebhookRequest {
    const method = request.method ?? 'POST';
    const methods = methodsOf(source);
    if (!methods.includes(method)) {
      throw this.refuse(source.name, 'wrong-method', wrongMethod(methods, method), {
        ...ANSWERS.wrongMethod,
        headers: { allow: methods.join(', ') },
      });
    }
    const target = targetOf(url)?.url ?? url;
    const head = { method, url: target, headers: RequestHeaders.fromRaw(request.rawHeaders) };
    const body = rawBodyOf(request);
    if (body !== undefined && 'bytes' in body) {
      const { bytes, holding } = body;
      return { ...head, rawBody: bytes, during: (work) => holding.during(work) };
    }
    return { ...head, rawBody: this.otherBody(source, head, request, kept) };
  }

  /** The refusal, counted. */
  refuse(
    source: string,
    reason: string,
    detail: string | (() => string),
    answer: Answer,
    request?: WebhookRequest,
  ): RefusedDelivery {
    this.rejections.add(source, reason, detail, request);
    return new RefusedDelivery(answer);
  }

  /** The exact bytes. A parsed body that is turned back into text has other bytes than the signed ones. */
  private otherBody(source: Source, head: RequestHead, request: IncomingMessage, kept: unknown): Buffer {
    const body = rawBodyOf(request);
    if (body !== undefined && 'rejected' in body) {
      const { reason, message } = body.rejected;
      const answer = source.provider.refusal ?? ANSWERS.unauthorized;
      throw this.refuse(source.name, reason, message, answer, { ...head, rawBody: NO_BYTES });
    }
    if (body !== undefined && 'refused' in body) {
      const { status } = body.refused;
      throw this.refuse(source.name, `http-${status}`, whyNotTaken(status, source, request), body.refused);
    }
    if (Buffer.isBuffer(kept)) return kept;
    this.logGone(source);
    throw new RefusedDelivery(ANSWERS.unavailable);
  }

  private logGone(source: Source): void {
    const line = this.lines.admit(source.name);
    if (line === undefined) return;
    this.logger.error(
      logLine(
        'the raw bytes of a webhook are gone: another parser read the request before this module. Remove the body parser that was ' +
          'installed on the HTTP server before NestFactory.create, or create the application with { rawBody: true }',
        { source: source.name, ...line },
      ),
    );
  }
}

function whyNotTaken(status: number, { maxBytes, encodings }: Source, { headers }: IncomingMessage): string {
  if (status === ANSWERS.tooLarge.status) return tooLarge(maxBytes, headers['content-length']);
  if (status === ANSWERS.unsupportedEncoding.status) {
    const encoding = headers['content-encoding'] ?? '';
    if (encodings.some((one) => one === encoding))
      return `expected a body packed by ${encoding}, as content-encoding says, received one that cannot be unpacked`;
    const expected =
      encodings.length === 0 ? 'a body that is not packed' : `a body packed by ${encodings.join(' or ')}`;
    return `expected ${expected} (encodings), received content-encoding ${printableEncoding(encoding)}`;
  }
  return (
    'the body was slower than bodyTimeout, or there is no room for it now: bodies in memory use the whole byteBudget, ' +
    "or this source's share of it"
  );
}
