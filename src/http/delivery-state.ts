import type { IncomingMessage } from 'node:http';
import type { ExecutionContext } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import type { WebhookEvent } from '../core/event.js';
import type { Source } from '../core/options/resolve-source.js';
import type { Verified } from '../inbox/delivery.verifier.js';
import type { Verdict } from '../inbox/answers.js';

/** The state of a request between the guard, the interceptor and the route's parameters. */
export interface DeliveryState {
  readonly source: Source;
  readonly verified: Verified;
  /** Set while a route with `@UseWebhook` runs. */
  run?: { readonly event: WebhookEvent; readonly manager: EntityManager };
  /** Set by the module's own route. Here, since interceptors of the application may change what a route returns. */
  verdict?: Verdict;
}

const states = new WeakMap<IncomingMessage, DeliveryState>();

export function keepState(request: IncomingMessage, state: DeliveryState): void {
  states.set(request, state);
}

export function stateOf(request: IncomingMessage): DeliveryState | undefined {
  return states.get(request);
}

/** A request as the adapters hand it out. */
export interface AdapterRequest {
  /** Fastify's wrapped Node request. */
  readonly raw?: IncomingMessage;
  readonly params?: Readonly<Record<string, string>>;
  /** Fastify's: the route that its router has chosen. */
  readonly routeOptions?: { readonly url?: string };
  /** Express's, below the `baseUrl` where it is mounted. */
  readonly route?: { readonly path?: unknown };
  readonly baseUrl?: string;
  readonly originalUrl?: string;
  readonly url: string;
  readonly rawBody?: unknown;
  body?: unknown;
}

export function adapterRequest(context: ExecutionContext): AdapterRequest {
  return context.switchToHttp().getRequest<AdapterRequest>();
}

/** Node's own request under Express (it is one) and Fastify (it wraps one). */
export function nodeRequest(request: AdapterRequest): IncomingMessage {
  return request.raw ?? (request as unknown as IncomingMessage);
}

/** The path of the route that the adapter has chosen, as it was declared. */
export function routeOf({ routeOptions, route, baseUrl = '' }: AdapterRequest): string | undefined {
  const path = routeOptions?.url ?? route?.path;
  return typeof path === 'string' ? baseUrl + path : undefined;
}
