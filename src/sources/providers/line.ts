import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import { seconds } from '../times.js';

/**
 * LINE Messaging API. The secret is the channel secret. An empty `events` is the console's verification and is answered 200.
 * @see https://developers.line.biz/en/docs/messaging-api/receiving-messages/
 */
export const line = /* @__PURE__ */ macSource({
  name: 'line',
  docs: 'https://developers.line.biz/en/docs/messaging-api/receiving-messages/',
  algorithm: 'sha256',
  encoding: 'base64',
  key: textKey,
  signature: single('x-line-signature'),
  payload: '${body}',
  eventsPath: 'events',
  idPath: 'webhookEventId',
  typePath: 'type',
  timePath: 'timestamp',
  ackTimeoutMs: seconds(2),
  retries: { automatic: true, sameBytes: false, changes: ['deliveryContext.isRedelivery'] },
  notes: {
    id: '`events[].webhookEventId`',
    unstable: '`deliveryContext.isRedelivery` becomes true on redelivery',
    handshake: 'a POST with empty `events`, signed: 200',
    more: 'turn redelivery on; its number and duration are not published',
    unconfirmed: 'retries, time-out',
  },
});
