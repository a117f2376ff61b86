export { httpEffect, type HttpEffectContext, type HttpEffectRequest } from './http-effect.js';
export { webhookEffect, EndpointGone, type WebhookEffectRequest } from './webhook-effect.js';
export {
  githubDeliveries,
  shopifyResources,
  stripeEvents,
  type GithubDeliveriesOptions,
  type ProviderListOptions,
  type ShopifyResourcesOptions,
  type StripeEventsOptions,
} from './provider-lists.js';
export { HttpClient, type Allow, type HttpRequest, type HttpResponse } from './http-client.js';
export { DestinationRefused, type Resolve } from './destination.js';
export { HttpFailure } from '../core/errors.js';
