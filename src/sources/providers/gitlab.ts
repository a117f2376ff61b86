import type { Verification } from '../../core/provider.js';
import type { RequestHead, WebhookRequest } from '../../core/request.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { SignatureRejection } from '../../core/errors.js';
import { defineSource, type Scheme } from '../define-source.js';
import { contentHash } from '../events/content-hash.js';
import { composeId } from '../events/dedupe-key.js';
import { eventFields } from '../events/event-fields.js';
import { checkSecretText } from '../signing/secret-check.js';
import { whsecKey } from '../signing/mac.js';
import { verifyToken } from '../signing/token.js';
import type { SourceOptions } from '../source-options.js';
import { verifyStandardWebhook } from '../standard-webhooks-source.js';
import { minutes, seconds } from '../times.js';

const SIGNING_PREFIX = 'whsec_';

/**
 * GitLab. A secret that is `whsec_` + base64 is a signing token: the request must be signed with it. Any other is a secret
 * token, which the request repeats and which covers nothing. Only the configured secret decides which, never the request.
 * @see https://docs.gitlab.com/user/project/integrations/webhooks/
 */
export function gitlab<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  const isSigned = Array.isArray(options.secrets) && options.secrets.every((secret) => isSigning(secret));
  return defineSource(
    {
      ...scheme,
      signed: { id: isSigned, type: false, time: isSigned },
      timeUnit: isSigned ? 'seconds' : undefined,
      signsBody: isSigned,
    },
    options,
    {},
  );
}

const scheme: Omit<Scheme, 'signed'> = {
  name: 'gitlab',
  docs: 'https://docs.gitlab.com/user/project/integrations/webhooks/',
  scheme: 'signing token: Standard Webhooks; secret token: `X-Gitlab-Token`, nothing is signed',
  toleranceMs: minutes(5),
  checkSecret,
  checkHead,
  verify,
  signsHeaders: ['webhook-id'],
  events: eventFields({
    idHeader: ['webhook-id', 'Idempotency-Key'],
    // Hooks that set each other off share the UUID, and have other bodies.
    idFallback: (body, { headers }) =>
      composeId([headers.one('X-Gitlab-Event-UUID') ?? '', contentHash(body, 'body')]),
    typeHeader: 'X-Gitlab-Event',
  }),
  keepHeaders: ['webhook-id', 'idempotency-key', 'x-gitlab-event', 'x-gitlab-instance'],
  secretHeaders: ['x-gitlab-token'],
  maxBytes: 25 * 1024 * 1024,
  ackTimeoutMs: seconds(10),
  retries: { automatic: true, sameBytes: false, changes: [] },
  notes: {
    id: '`webhook-id`, else `Idempotency-Key` header, which are the same; of GitLab versions without either, `X-Gitlab-Event-UUID` and a hash of the body',
    unstable: '`X-Gitlab-Event-UUID` is shared by hooks that set each other off, so it is no id',
    stops: '2xx and 3xx; repeated failures disable the hook',
    unconfirmed: 'time-out, when a hook is disabled',
  },
};

function isSigning(secret: string): boolean {
  return secret.startsWith(SIGNING_PREFIX);
}

function checkSecret(secret: string): string | undefined {
  const wrong = checkSecretText(secret);
  if (wrong !== undefined || !isSigning(secret)) return wrong;
  return whsecKey(secret)?.length === 32 ? undefined : 'is not whsec_ + base64 of 32 bytes';
}

function checkHead({ headers }: RequestHead): void {
  const presented = ['X-Gitlab-Token', 'webhook-signature'].some((name) => headers.first(name) !== undefined);
  if (!presented) throw new SignatureRejection('missing-signature', 'no X-Gitlab-Token header');
}

function verify(request: WebhookRequest, secrets: readonly string[]): Verification {
  // Blanks are no secrets, so that the index stays that of the configured one.
  const tokens = secrets.map((secret) => (isSigning(secret) ? '' : secret));
  const token = request.headers.one('X-Gitlab-Token');
  if (token !== undefined && tokens.some((one) => one !== '')) {
    try {
      return verifyToken(token, tokens);
    } catch (error) {
      if (!(error instanceof SignatureRejection) || tokens.every((one) => one !== '')) throw error;
    }
  }
  if (!secrets.some(isSigning)) throw new SignatureRejection('missing-signature', 'no X-Gitlab-Token header');
  const signing = secrets.map((secret) => (isSigning(secret) ? secret : ''));
  return verifyStandardWebhook(whsecKey, ['webhook'], request, signing);
}
