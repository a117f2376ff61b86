import type { BodyReader } from '../../core/body.js';
import type { WebhookRequest } from '../../core/request.js';

/** One event of a verified request, before its dedupe key is chosen. */
export interface ReceivedEvent {
  /**
   * The provider's own choice of id.
   * @throws EventIdUnusable
   */
  readonly presetId: () => string;
  readonly type: string;
  readonly occurredAt?: Date;
  /** Exact slice of a batched body. @default the whole body */
  readonly slice?: Buffer;
}

/** Finds the events of a verified request; none when it is a ping. */
export type EventsReader = (request: WebhookRequest, body: BodyReader) => readonly ReceivedEvent[];

/** The type of an event whose type is absent or unreadable: handlers of '*' still get it. */
export const UNTYPED = 'unknown';

/** An event type as text that a column and a log line can hold. */
export function eventType(value: unknown): string {
  return typeof value === 'string' &&
    /^[^\u0000-\u001f\u007f-\u009f]{1,200}$/.test(value) &&
    value.isWellFormed()
    ? value
    : UNTYPED;
}
