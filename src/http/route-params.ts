import { createParamDecorator, type ExecutionContext, type PipeTransform, type Type } from '@nestjs/common';
import { didYouMean } from '../core/options/did-you-mean.js';
import { ConfigurationError } from '../core/errors.js';
import type { WebhookEvent } from '../core/event.js';
import { adapterRequest, nodeRequest, stateOf } from './delivery-state.js';

// A record rather than a list, so that the compiler asks for each new one.
const PROPERTIES: Readonly<Record<keyof WebhookEvent, true>> = {
  source: true,
  tenant: true,
  eventId: true,
  id: true,
  type: true,
  occurredAt: true,
  receivedAt: true,
  payload: true,
  rawBody: true,
  headers: true,
};

const eventParam = createParamDecorator<keyof WebhookEvent | undefined>((property, context) => {
  const { event } = runOf(context, '@Event()');
  return property === undefined ? event : event[property];
});

/** A property of the event, and pipes. */
export type EventPart = keyof WebhookEvent | PipeTransform | Type<PipeTransform> | undefined;

/**
 * The event, or with `@Event('payload')` a property of it, as a parameter of a route with `@UseWebhook`. Pipes apply to what is
 * handed in.
 * @throws ConfigurationError for a property that no event has
 */
export function Event(...propertyAndPipes: readonly EventPart[]): ParameterDecorator {
  const [property] = propertyAndPipes;
  const decorate = eventParam(...propertyAndPipes);
  if (typeof property !== 'string' || Object.hasOwn(PROPERTIES, property)) return decorate;
  return (target, method) => {
    const at = `${target.constructor.name}.${String(method)} @Event('${property}')`;
    const hint = didYouMean(property, Object.keys(PROPERTIES));
    throw new ConfigurationError(`${at}: expected a property of the event${hint}`);
  };
}

/** The transaction's EntityManager, as a parameter of a route with `@UseWebhook`. Its writes commit with the claim. */
export const TxManager = createParamDecorator(
  (_: unknown, context: ExecutionContext) => runOf(context, '@TxManager()').manager,
);

function runOf(context: ExecutionContext, decorator: string) {
  const run = stateOf(nodeRequest(adapterRequest(context)))?.run;
  if (run !== undefined) return run;
  throw new ConfigurationError(`${decorator} works on routes with @UseWebhook(source) only`);
}
