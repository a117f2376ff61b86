/** Injection tokens of `EffectConsumerModule`. */
export const CONSUMER_OPTIONS = Symbol('webhook-inbox:consumer-options');
export const CONSUMER_DATA_SOURCE = Symbol('webhook-inbox:consumer-data-source');
