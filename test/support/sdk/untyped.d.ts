declare module 'sns-validator' {
  export default class MessageValidator {
    validate(message: string, callback: (error: Error | null) => void): void;
  }
}

declare module 'braintree' {
  export const Environment: { readonly Sandbox: unknown };
  export class BraintreeGateway {
    constructor(config: { environment: unknown; merchantId: string; publicKey: string; privateKey: string });
    readonly webhookNotification: {
      parse(signature: string, payload: string): Promise<unknown>;
      verify(challenge: string): Promise<string>;
    };
    readonly webhookTesting: {
      sampleNotification(kind: string, id: string): { bt_signature: string; bt_payload: string };
    };
  }
}

declare module 'coinbase-commerce-node/lib/Webhook.js' {
  const webhook: {
    computeSignature(payload: string, secret: string): string;
    verifySigHeader(payload: string, signature: string, secret: string): boolean;
  };
  export default webhook;
}
