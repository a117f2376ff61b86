import type { Answer } from '../../core/answer.js';
import type { WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { isChallenge } from '../challenge.js';
import { defineSource, type Scheme } from '../define-source.js';
import { macProvider } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { hours, seconds } from '../times.js';

/** Options of `asana()`. */
export interface AsanaOptions extends SourceOptions {
  /**
   * Called with the secret that Asana sends while a webhook is being created; store it, so that `secrets` gives it from then
   * on, and return true to confirm. Anyone can send a handshake: return true only while you are creating a webhook.
   * @default handshakes are refused
   */
  readonly onHandshake?: (secret: string, request: WebhookRequest) => boolean | Promise<boolean>;
}

/**
 * Asana. The secret is the `X-Hook-Secret` of the handshake, used as text.
 * @see https://developers.asana.com/docs/webhooks-guide
 */
export function asana<TPayload = unknown>(options: AsanaOptions): SourceDefinition<TPayload> {
  return defineSource(schemeOf(options.onHandshake), options, { onHandshake: true });
}

const signature = /* @__PURE__ */ single('X-Hook-Signature');

function schemeOf(onHandshake: AsanaOptions['onHandshake']): Scheme {
  return macProvider({
    name: 'asana',
    docs: 'https://developers.asana.com/docs/webhooks-guide',
    algorithm: 'sha256',
    encoding: 'hex',
    key: textKey,
    signature,
    checkHead: (head) => {
      const isHandshake = onHandshake !== undefined && head.headers.first('X-Hook-Secret') !== undefined;
      if (!isHandshake) signature(head);
    },
    payload: '${body}',
    eventsPath: 'events',
    idKey: { hash: ['action', 'created_at', 'user', 'resource', 'parent', 'change'] },
    typePath: ['resource.resource_type', 'action'],
    timePath: 'created_at',
    handshake:
      onHandshake === undefined
        ? undefined
        : {
            methods: ['POST'],
            answer: () => undefined,
            perform: (request) => confirm(request, onHandshake),
          },
    ackTimeoutMs: seconds(10),
    retries: { automatic: true, windowMs: hours(24), sameBytes: false, changes: [] },
    notes: {
      id: 'hash of the event’s fields, `created_at` among them: the vendor sends no event id',
      handshake: 'POST with `X-Hook-Secret`, unsigned: the same header back, where `onHandshake` agrees',
      more: 'an empty `events` is a heartbeat, every 8 h; a webhook without answers for 24 h is deleted',
    },
  });
}

async function confirm(
  request: WebhookRequest,
  onHandshake: NonNullable<AsanaOptions['onHandshake']>,
): Promise<Answer | undefined> {
  const secret = request.headers.one('X-Hook-Secret');
  if (!isChallenge(secret) || request.headers.first('X-Hook-Signature') !== undefined) return undefined;
  if (!(await onHandshake(secret, request))) return undefined;
  return { status: 200, body: '', headers: { 'X-Hook-Secret': secret } };
}
