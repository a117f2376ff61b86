import type { SourceDefinition } from '../../core/options/source.js';
import { ConfigurationError } from '../../core/errors.js';
import { isChallenge, queryValue, textAnswer } from '../challenge.js';
import { defineSource } from '../define-source.js';
import type { DedupeKey } from '../events/dedupe-key.js';
import { macProvider } from '../mac-source.js';
import { textKey } from '../signing/mac.js';
import { single } from '../signing/signature-text.js';
import type { SourceOptions } from '../source-options.js';
import { minutes, seconds } from '../times.js';

/** Options of `dropbox()`. */
export interface DropboxOptions extends SourceOptions {
  /**
   * The key that makes two notifications one event. Dropbox sends neither id nor time, so two changes of one account can have equal bodies.
   * `{ hash: 'body' }` would drop the second for good. Give a function that knows more, for example the cursor.
   */
  readonly dedupe: DedupeKey;
}

/**
 * Dropbox. The secret is the app's secret. A notification only says whose files changed.
 * @see https://www.dropbox.com/developers/reference/webhooks
 * @throws ConfigurationError without `dedupe`
 */
export function dropbox<TPayload = unknown>(options: DropboxOptions): SourceDefinition<TPayload> {
  if (options.dedupe === undefined || options.dedupe === 'preset')
    throw new ConfigurationError(
      `dropbox.dedupe: expected a key, received ${options.dedupe ?? 'nothing'}. Dropbox sends neither id nor time, so no preset can tell a retry from a new change.`,
    );
  return defineSource(scheme, options, {});
}

const scheme = /* @__PURE__ */ macProvider({
  name: 'dropbox',
  docs: 'https://www.dropbox.com/developers/reference/webhooks',
  algorithm: 'sha256',
  encoding: 'hex',
  key: textKey,
  signature: single('X-Dropbox-Signature'),
  payload: '${body}',
  handshake: {
    methods: ['GET'],
    answer: (request) => {
      const challenge = request.method === 'GET' ? queryValue(request, 'challenge') : undefined;
      return isChallenge(challenge) ? textAnswer(challenge) : undefined;
    },
  },
  ackTimeoutMs: seconds(10),
  retries: { automatic: true, windowMs: minutes(10), sameBytes: false },
  notes: {
    id: 'none: `dedupe` is required',
    unstable: 'there is neither id nor time',
    handshake: 'GET `?challenge=`, unsigned: the challenge as text',
    unconfirmed: 'retries',
  },
});
