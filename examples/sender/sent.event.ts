/** A provider that the sender plays. */
export type PlayedSource = 'github' | 'shopify' | 'standard-webhooks' | 'stripe';

/** An event as a provider has it: every delivery of it carries the same id and the same bytes. */
export interface SentEvent {
  readonly source: PlayedSource;
  readonly id: string;
  readonly type: string;
  readonly body: Buffer;
}
