/** The metadata that `@UseWebhook` writes on a route. */
export interface UseWebhookMetadata {
  readonly source: string;
  readonly name: string | undefined;
}

export const USE_WEBHOOK = Symbol('webhook-inbox:use-webhook');

export function useWebhookOf(method: object): UseWebhookMetadata | undefined {
  return Reflect.getMetadata(USE_WEBHOOK, method) as UseWebhookMetadata | undefined;
}

/** Index of the @Res() that the decorator adds. It distinguishes it from one of the application. */
export const OWN_ANSWER_INDEX = 64;
