declare module 'sns-validator' {
  export default class MessageValidator {
    validate(message: string, callback: (error: Error | null) => void): void;
  }
}

declare module 'braintree' {
  export const Environment: { readonly Sandbox: unknown };
  export class BraintreeGateway {
    constructor(config: { environment: unknown; merchantId: string; publicKey: string; privateKey: string });
    readonly webhookNotification: { parse(signature: string, payload: string): Promise<unknown> };
  }
}

declare module 'coinbase-commerce-node/lib/Webhook.js' {
  const webhook: { verifySigHeader(payload: string, signature: string, secret: string): boolean };
  export default webhook;
}
