import type { BodyReader } from '../../core/body.js';
import { eventIdAt } from '../../core/ids.js';
import type { SourceDefinition } from '../../core/options/source.js';
import { defineSource, type Scheme } from '../define-source.js';
import { eventType, type ReceivedEvent } from '../events/event-fields.js';
import { checkSecretText } from '../signing/secret-check.js';
import { presentedToken, verifyToken } from '../signing/token.js';
import type { SourceOptions } from '../source-options.js';
import { hours } from '../times.js';

/**
 * Telegram Bot API, which signs nothing. The secret is the `secret_token` of setWebhook, 1 to 256 of A-Z a-z 0-9 _ -.
 * @see https://core.telegram.org/bots/api#setwebhook
 */
export function telegram<TPayload = unknown>(options: SourceOptions): SourceDefinition<TPayload> {
  return defineSource(scheme, options, {});
}

const scheme: Scheme = {
  name: 'telegram',
  docs: 'https://core.telegram.org/bots/api#setwebhook',
  scheme: 'token in `X-Telegram-Bot-Api-Secret-Token`; nothing is signed',
  signed: { id: false, type: false, time: false },
  signsBody: false,
  checkSecret: (secret) =>
    checkSecretText(secret) ??
    (/^[A-Za-z0-9_-]{1,256}$/.test(secret) ? undefined : 'is not 1 to 256 letters, digits, _ and -'),
  checkHead: (head) => void presentedToken(head.headers.one('X-Telegram-Bot-Api-Secret-Token')),
  verify: (request, secrets) => verifyToken(request.headers.one('X-Telegram-Bot-Api-Secret-Token'), secrets),
  secretHeaders: ['x-telegram-bot-api-secret-token'],
  events: (_request, body) => [readEvent(body)],
  retries: { automatic: true, windowMs: hours(24), sameBytes: false },
  notes: {
    id: '`update_id` of the body',
    more: 'the type is the field that the update holds: `message`, `callback_query`, …',
    unconfirmed: 'that undelivered updates are kept for 24 h',
  },
};

function readEvent(body: BodyReader): ReceivedEvent {
  const json = body.json();
  const names = typeof json === 'object' && json !== null ? Object.keys(json) : [];
  return {
    presetId: () => eventIdAt(body, 'update_id'),
    type: eventType(names.find((name) => name !== 'update_id')),
  };
}
