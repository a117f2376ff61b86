import {
  Catch,
  HttpException,
  NotFoundException,
  type ArgumentsHost,
  type ExceptionFilter,
} from '@nestjs/common';
import type { Answer } from '../core/answer.js';
import { AnswerWriter } from './answer.writer.js';

/** A request that the guard refuses, with the answer it gets. */
export class RefusedDelivery extends HttpException {
  constructor(readonly answer: Answer) {
    super(answer.body, answer.status);
  }
}

/** A request to a path of the application's own, for which Express has asked the module's route first. */
export class ApplicationsOwn extends NotFoundException {}

/** Writes the answer of a refused delivery as it is, before any filter of the application. */
@Catch(RefusedDelivery, ApplicationsOwn)
export class AnswerFilter implements ExceptionFilter<RefusedDelivery | ApplicationsOwn> {
  constructor(private readonly writer: AnswerWriter) {}

  catch(refused: RefusedDelivery | ApplicationsOwn, host: ArgumentsHost): void {
    const http = host.switchToHttp();
    if (refused instanceof ApplicationsOwn) http.getNext<() => void>()();
    else this.writer.write(http.getResponse(), refused.answer);
  }
}
