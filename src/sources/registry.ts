import type { SourceDefinition } from '../core/source.js';
import { github } from './providers/github.js';
import { hmac } from './providers/hmac.js';
import { shopify } from './providers/shopify.js';
import { standardWebhooks } from './providers/standard-webhooks.js';
import { stripe } from './providers/stripe.js';
import type { SourceOptions } from './source-options.js';

/** Options as a file gives them: the provider checks their names. */
export type UntypedOptions = SourceOptions & Readonly<Record<string, unknown>>;
export type UntypedFactory = (options: UntypedOptions) => SourceDefinition;

/**
 * Every provider by its name, for sources that a file configures: `{ "billing": { "provider": "stripe", "secrets": ["whsec_…"] } }`.
 * Import the functions themselves where you can: this map holds the whole catalogue.
 */
export const providersByName: ReadonlyMap<string, UntypedFactory> = new Map(
  Object.entries({
    github: untyped(github),
    hmac: untyped(hmac),
    shopify: untyped(shopify),
    'standard-webhooks': untyped(standardWebhooks),
    stripe: untyped(stripe),
  }),
);

/** What a file says has no type before it is checked. */
function untyped(factory: (options: never) => SourceDefinition): UntypedFactory {
  return factory as UntypedFactory;
}
