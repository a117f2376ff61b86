/** Marks the module's own controller. */
export const WEBHOOKS_CONTROLLER = Symbol('webhook-inbox:controller');
