import type { IncomingMessage, ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import type { Answer } from '../../core/answer.js';
import { errorText, logLine } from '../../core/log/log.js';
import { Throttle } from '../../core/log/throttle.js';
import type { Source } from '../../core/options/resolve-source.js';
import { HandlerRegistry } from '../../handlers/handler.registry.js';
import { ANSWERS } from '../../inbox/answers.js';
import { Inbox } from '../../inbox/inbox.js';
import { RefusedDelivery } from '../answer.filter.js';
import { AnswerWriter } from '../answer.writer.js';
import { SourceUrls } from '../source-urls.js';
import { WebhookRequests } from '../webhook.requests.js';

/**
 * Serves the module's own route as soon as the bytes are there. It does the work of guard, controller and interceptor, for applications
 * that have put nothing between them.
 */
@Injectable()
export class DirectRoute {
  private readonly logger = new InboxLogger();
  private readonly lines = new Throttle();

  constructor(
    private readonly requests: WebhookRequests,
    private readonly inbox: Inbox,
    private readonly registry: HandlerRegistry,
    private readonly urls: SourceUrls,
    private readonly writer: AnswerWriter,
  ) {}

  /**
   * Answers in any case, since no later handler would.
   * @param url the target as received
   */
  async serve(
    request: IncomingMessage,
    response: ServerResponse,
    source: Source,
    url: string,
  ): Promise<void> {
    try {
      this.writer.writeDirect(response, await this.answer(request, source, url));
    } catch (error) {
      const isBegun = response.headersSent;
      if (isBegun) response.destroy();
      else this.writer.writeDirect(response, ANSWERS.unavailable);
      this.log(source, isBegun ? 'its connection was ended' : 'answered 503', error);
    }
  }

  /** The answer to a name that is no source's, where the adapter has none of its own. */
  refuseUnknown(response: ServerResponse): void {
    const { answer } = this.requests.refuse(
      '',
      'unknown-source',
      'no source has so long a name',
      ANSWERS.unknownSource,
    );
    this.writer.writeDirect(response, answer);
  }

  private log(source: Source, end: string, error: unknown): void {
    const line = this.lines.admit(source.name);
    if (line === undefined) return;
    const text = `a webhook could not be served, ${end}; the provider sends it again: ${errorText(error)}`;
    this.logger.error(logLine(text, { source: source.name, ...line }));
  }

  private async answer(request: IncomingMessage, source: Source, url: string): Promise<Answer> {
    try {
      const received = this.requests.of(source, request, url);
      const hasTaker = !this.registry.hasOnlyRoutes(source.name);
      const warn = hasTaker ? undefined : () => this.urls.warnOfOwnRoute(source.name);
      return await this.inbox.serve(source, received, warn);
    } catch (error) {
      if (error instanceof RefusedDelivery) return error.answer;
      throw error;
    }
  }
}
