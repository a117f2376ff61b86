import type { Answer } from '../../core/answer.js';
import type { WebhookRequest } from '../../core/request.js';
import { EMPTY_OK } from '../challenge.js';
import { macSource } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { signatureHeader, single } from '../signing/signature-text.js';
import { minutes } from '../times.js';
import { WOOCOMMERCE_TYPES } from '../types/payments.types.js';

const SIGNATURE = 'X-WC-Webhook-Signature';
/** Bytes of the longest ping. */
const MAX_PING = 32;

/**
 * WooCommerce. The secret is the webhook's, after WordPress decoded it: `&amp;` in the form is `&` here.
 * @see https://woocommerce.com/document/webhooks/
 */
export const wooCommerce = /* @__PURE__ */ macSource({
  name: 'woocommerce',
  docs: 'https://github.com/woocommerce/woocommerce/blob/trunk/plugins/woocommerce/includes/class-wc-webhook.php',
  algorithm: 'sha256',
  encoding: 'base64',
  key: textKey,
  signature: single(SIGNATURE),
  checkHead: (head) => {
    if (Number(head.headers.first('content-length') ?? 0) > MAX_PING) signatureHeader(head, SIGNATURE);
  },
  payload: '${body}',
  idKey: [{ header: 'X-WC-Webhook-Topic' }, { hash: 'body' }],
  typeHeader: 'X-WC-Webhook-Topic',
  types: WOOCOMMERCE_TYPES,
  timePath: 'date_modified_gmt',
  handshake: { methods: ['POST'], answer },
  keepHeaders: ['x-wc-webhook-source', 'x-wc-webhook-id', 'x-wc-webhook-delivery-id'],
  ackTimeoutMs: minutes(1),
  retries: { automatic: false, sameBytes: false },
  notes: {
    id: 'topic and hash of the body, which holds id and `date_modified`',
    unstable:
      '`X-WC-Webhook-Delivery-ID` is a hash of webhook and second: two deliveries of one second share it; the topic is not signed',
    stops: 'after more than 5 failures in a row the webhook is disabled',
    handshake: 'POST `webhook_id=…` on creation, unsigned: 200',
  },
});

/** The ping carries no signature, and a webhook whose ping is refused cannot be saved. It is no event. */
function answer(request: WebhookRequest): Answer | undefined {
  if (request.headers.first(SIGNATURE) !== undefined || request.rawBody.length > MAX_PING) return undefined;
  return /^webhook_id=\d+$/.test(request.rawBody.toString('latin1')) ? EMPTY_OK : undefined;
}
