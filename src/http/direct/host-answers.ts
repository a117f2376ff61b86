import type { ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { Rejections } from '../../inbox/rejections.js';
import { AnswerWriter } from '../answer.writer.js';
import type { FoundRoute } from '../webhook.routes.js';

/** Notices the answers that the application gives to webhooks itself: a guard's 403 would leave no trace of them otherwise. */
@Injectable()
export class HostAnswers {
  constructor(
    private readonly rejections: Rejections,
    private readonly writer: AnswerWriter,
  ) {}

  /** For a request that goes through the application's pipeline. */
  watch(response: ServerResponse, { source, own }: FoundRoute): void {
    response.once('finish', () => {
      if (this.writer.hasWritten(response)) return;
      const remedy =
        own === undefined
          ? ''
          : '. Mark the route as your guard expects it: controller: { decorators: [Public()] }';
      this.rejections.add(
        source.name,
        'application-answer',
        `the application itself answered ${response.statusCode}, by a guard or a middleware, and no event was claimed${remedy}`,
      );
    });
  }
}
