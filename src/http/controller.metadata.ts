/** Marks the module's own controller. */
export const WEBHOOKS_CONTROLLER = Symbol('webhook-inbox:controller');
/** Injection token: whether the options let the route be served before the application's pipeline. */
export const MAY_BE_DIRECT = Symbol('webhook-inbox:may-be-direct');
