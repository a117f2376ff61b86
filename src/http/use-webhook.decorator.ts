import { applyDecorators, Res, SetMetadata, UseFilters, UseGuards, UseInterceptors } from '@nestjs/common';
import { AnswerFilter } from './answer.filter.js';
import { IdempotencyInterceptor } from './idempotency.interceptor.js';
import { SignatureGuard } from './signature.guard.js';
import { OWN_ANSWER_INDEX, USE_WEBHOOK, type UseWebhookMetadata } from './use-webhook.metadata.js';

/**
 * Makes a route of the application the handler of a source. The signature is verified, the event claimed, and the route runs inside the
 * claim's transaction (`@Event()`, `@TxManager()`). A failure is answered 500, and the provider's redelivery runs it again. A failure that
 * another attempt cannot cure (a pipe's 400) makes the row dead and is answered 200. The route's return value is the result summary.
 * @param source name of a configured source
 * @param options `name`: the handler's stable id. @default 'Class.method'
 */
export function UseWebhook(source: string, options: { readonly name?: string } = {}): MethodDecorator {
  const metadata: UseWebhookMetadata = { source, name: options.name };
  return applyDecorators(
    SetMetadata(USE_WEBHOOK, metadata),
    UseGuards(SignatureGuard),
    UseInterceptors(IdempotencyInterceptor),
    UseFilters(AnswerFilter),
    ownAnswer,
  );
}

// A @Res() at a place where no method has a parameter: Nest then leaves the answer to us, and nothing of the application wraps it.
const ownAnswer: MethodDecorator = (target, name) => Res()(target, name, OWN_ANSWER_INDEX);
