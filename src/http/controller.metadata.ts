/** Marks the module's own controller. */
export const WEBHOOKS_CONTROLLER = Symbol('webhook-inbox:controller');
/** Injection token of the number of decorators that the application has for it. */
export const ROUTE_DECORATORS = Symbol('webhook-inbox:route-decorators');
