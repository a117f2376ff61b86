import type { IncomingMessage, ServerResponse } from 'node:http';
import { Injectable, Logger } from '@nestjs/common';
import type { Answer } from '../core/answer.js';
import { errorText, logLine } from '../core/log.js';
import type { Source } from '../core/resolve-source.js';
import { ANSWERS } from '../inbox/answers.js';
import { Inbox } from '../inbox/inbox.js';
import { RefusedDelivery } from './answer.filter.js';
import { AnswerWriter } from './answer.writer.js';
import { SourceUrls } from './source.urls.js';
import { WebhookRequests } from './webhook.requests.js';

/**
 * Serves the module's own route as soon as the bytes are there, as guard, controller and interceptor would, without the way to them:
 * for applications that have put nothing on that way.
 */
@Injectable()
export class DirectRoute {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    private readonly requests: WebhookRequests,
    private readonly inbox: Inbox,
    private readonly urls: SourceUrls,
    private readonly writer: AnswerWriter,
  ) {}

  /** @param url path and query as received */
  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    source: Source,
    url: string,
  ): Promise<void> {
    let answer: Answer;
    try {
      const received = this.requests.of(source, request, url);
      answer = await this.inbox.serve(source, received, () => this.urls.cameToOwnRoute(source.name));
    } catch (error) {
      answer = error instanceof RefusedDelivery ? error.answer : this.unavailable(source, error);
    }
    this.writer.writeDirect(response, answer);
  }

  /** Whatever it was, nothing of the delivery is known to be claimed: the provider comes again. */
  private unavailable(source: Source, error: unknown): Answer {
    const text = `a webhook could not be served, answered 503: ${errorText(error)}`;
    this.logger.error(logLine(text, { source: source.name }));
    return ANSWERS.unavailable;
  }
}
