import type { BodyReader } from '../../core/body.js';
import { eventId } from '../../core/ids.js';
import type { WebhookRequest } from '../../core/request.js';
import { contentHash } from '../events/content-hash.js';
import { composeId } from '../events/dedupe-key.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';

/**
 * Twilio names events by URL and fields alone. A status is no id: one call is `in-progress` for many requests. So the header
 * that retries repeat is the key, and where it is absent the whole content.
 */
export function twilioEvent(request: WebhookRequest, body: BodyReader): ReceivedEvent {
  const token = request.headers.one('I-Twilio-Idempotency-Token');
  return {
    presetId: () =>
      token === undefined
        ? composeId([request.url, contentHash(body, 'body')])
        : eventId(token, 'I-Twilio-Idempotency-Token'),
    type: eventType(typeOf(new URLSearchParams(body.bytes.toString('utf8')))),
  };
}

function typeOf(form: URLSearchParams): string | undefined {
  if (form.has('MessageSid') || form.has('SmsSid'))
    return `message.${form.get('MessageStatus') ?? form.get('SmsStatus') ?? 'received'}`;
  return form.has('CallSid') ? `call.${form.get('CallStatus') ?? 'unknown'}` : undefined;
}
