import type { Answer } from '../../core/answer.js';
import { BodyReader } from '../../core/body.js';
import type { WebhookRequest } from '../../core/request.js';
import { isToken } from '../challenge.js';
import { macSource } from '../mac-source.js';
import { digestOf, textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import { minutes, seconds } from '../times.js';

/**
 * Zoom. The secret is the app's secret token.
 * @see https://developers.zoom.us/docs/api/webhooks/
 */
export const zoom = /* @__PURE__ */ macSource({
  name: 'zoom',
  docs: 'https://developers.zoom.us/docs/api/webhooks/',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('x-zm-signature', 'v0='),
  timestampHeader: 'x-zm-request-timestamp',
  payload: 'v0:${timestamp}:${body}',
  timeUnit: 'seconds',
  toleranceMs: minutes(5),
  idKey: { hash: ['event', 'event_ts', 'payload'] },
  typePath: 'event',
  timePath: 'event_ts',
  handshake: { methods: ['POST'], answer },
  keepHeaders: ['x-zm-trackingid'],
  ackTimeoutMs: seconds(3),
  retries: { automatic: true, windowMs: minutes(85), sameBytes: false, changes: ['download_token'] },
  notes: {
    id: 'hash of `event`, `event_ts` and `payload`: the vendor sends no event id',
    handshake: 'POST `endpoint.url_validation`, signed, every 72 h: plain token and its HMAC as JSON',
    unconfirmed: 'window, retries',
  },
});

/**
 * Only a signed request gets the HMAC of its token. The signed text of a delivery begins with `v0:`, and no token holds a colon. So the
 * answer is never the signature of a delivery.
 */
function answer(request: WebhookRequest, secrets: readonly string[], verified: boolean): Answer | undefined {
  if (!verified) return undefined;
  const body = new BodyReader(request.rawBody);
  const plainToken = body.at('payload.plainToken');
  const key = textKey(secrets[0] ?? '');
  if (body.at('event') !== 'endpoint.url_validation' || !isToken(plainToken) || key === undefined)
    return undefined;
  const encryptedToken = digestOf('sha256', key, [plainToken]).toString('hex');
  return { status: 200, body: { plainToken, encryptedToken } };
}
