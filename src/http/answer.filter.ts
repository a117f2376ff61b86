import { Catch, HttpException, type ArgumentsHost, type ExceptionFilter } from '@nestjs/common';
import type { Answer } from '../core/answer.js';
import { AnswerWriter } from './answer.writer.js';

/** A request that the guard refuses, with the answer it gets. */
export class RefusedDelivery extends HttpException {
  constructor(readonly answer: Answer) {
    super(answer.body, answer.status);
  }
}

/** Writes the answer of a refused delivery as it is, whatever filters the application has. */
@Catch(RefusedDelivery)
export class AnswerFilter implements ExceptionFilter<RefusedDelivery> {
  constructor(private readonly writer: AnswerWriter) {}

  catch(refused: RefusedDelivery, host: ArgumentsHost): void {
    this.writer.write(host.switchToHttp().getResponse(), refused.answer);
  }
}
