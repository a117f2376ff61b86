/** Injection token of the resolved options. */
export const WEBHOOKS_OPTIONS = Symbol('webhook-inbox:options');
/** Injection token of the host's DataSource. */
export const WEBHOOKS_DATA_SOURCE = Symbol('webhook-inbox:data-source');
