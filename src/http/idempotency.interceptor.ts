import {
  Inject,
  Injectable,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { lastValueFrom, of, type Observable } from 'rxjs';
import type { Answer } from '../core/answer.js';
import { ConfigurationError } from '../core/errors.js';
import type { VerifiedDelivery } from '../inbox/delivery.js';
import { EventDispatcher } from '../inbox/event.dispatcher.js';
import { Inbox } from '../inbox/inbox.js';
import type { Verdict } from '../inbox/answers.js';
import type { HandlerCode } from '../outbox/runs/handler.runner.js';
import { AnswerWriter } from './answer.writer.js';
import { adapterRequest, nodeRequest, stateOf, type DeliveryState } from './delivery-state.js';
import { OwnEnhancers } from './direct/own-enhancers.js';
import { routeName } from './route.explorer.js';
import { useWebhookOf } from './use-webhook.metadata.js';

/**
 * Turns the verdict on a delivery into the answer and writes it, past interceptors of the application that would wrap it.
 * On a route with `@UseWebhook` it opens the transaction, claims, runs the route inside it and commits.
 */
@Injectable()
export class IdempotencyInterceptor implements NestInterceptor {
  constructor(
    @Inject(Inbox) private readonly inbox: Inbox,
    private readonly dispatcher: EventDispatcher,
    private readonly writer: AnswerWriter,
    private readonly enhancers: OwnEnhancers,
  ) {}

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<undefined>> {
    const instead = this.enhancers.insteadOf(this, IdempotencyInterceptor, 'intercept');
    if (instead !== undefined) return instead.intercept(context, next);
    const state = stateOf(nodeRequest(adapterRequest(context)));
    if (state === undefined) {
      throw new ConfigurationError(
        'IdempotencyInterceptor needs SignatureGuard in front of it: use @UseWebhook(source)',
      );
    }
    this.writer.write(context.switchToHttp().getResponse(), await this.answer(context, next, state));
    return of(undefined);
  }

  private async answer(context: ExecutionContext, next: CallHandler, state: DeliveryState): Promise<Answer> {
    const { verified } = state;
    if (verified.kind === 'handshake') return verified.answer;
    return this.inbox.answer(verified.delivery, this.dispatch(context, next, verified.delivery, state));
  }

  private dispatch(
    context: ExecutionContext,
    next: CallHandler,
    delivery: VerifiedDelivery,
    state: DeliveryState,
  ): Promise<Verdict> {
    const route = useWebhookOf(context.getHandler());
    if (route === undefined) return this.verdict(state, next);
    const name = routeName(route, context.getClass().name, context.getHandler().name);
    return this.dispatcher.dispatchRoute(delivery, name, this.code(state, next));
  }

  private async verdict(state: DeliveryState, next: CallHandler): Promise<Verdict> {
    await lastValueFrom(next.handle(), { defaultValue: undefined });
    if (state.verdict === undefined)
      throw new Error('an interceptor of the application kept the route from running');
    return state.verdict;
  }

  private code(state: DeliveryState, next: CallHandler): HandlerCode {
    return async (event, { manager }) => {
      state.run = { event, manager };
      return lastValueFrom(next.handle(), { defaultValue: undefined });
    };
  }
}
