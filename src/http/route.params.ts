import { createParamDecorator, type ExecutionContext } from '@nestjs/common';
import { ConfigurationError } from '../core/errors.js';
import { adapterRequest, nodeRequest, stateOf } from './delivery.state.js';

/** The event, as a parameter of a route with `@UseWebhook`. */
export const Event = createParamDecorator(
  (_: unknown, context: ExecutionContext) => runOf(context, '@Event()').event,
);

/** The transaction's EntityManager, as a parameter of a route with `@UseWebhook`: what it writes commits with the claim. */
export const TxManager = createParamDecorator(
  (_: unknown, context: ExecutionContext) => runOf(context, '@TxManager()').manager,
);

function runOf(context: ExecutionContext, decorator: string) {
  const run = stateOf(nodeRequest(adapterRequest(context)))?.run;
  if (run !== undefined) return run;
  throw new ConfigurationError(`${decorator} works on routes with @UseWebhook(source) only`);
}
