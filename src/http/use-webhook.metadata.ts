/** What `@UseWebhook` writes on a route. */
export interface UseWebhookMetadata {
  readonly source: string;
  readonly name: string | undefined;
}

export const USE_WEBHOOK = Symbol('webhook-inbox:use-webhook');

export function useWebhookOf(method: object): UseWebhookMetadata | undefined {
  return Reflect.getMetadata(USE_WEBHOOK, method) as UseWebhookMetadata | undefined;
}

/** Index of the @Res() that the decorator adds, by which one of the application's is told from it. */
export const OWN_ANSWER_INDEX = 64;
