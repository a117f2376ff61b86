import type { Answer } from '../core/answer.js';
import type { WebhookRequest } from '../core/request.js';

/** Longest challenge that is answered, in characters. */
const MAX_CHALLENGE = 1024;

/** The query's values of that name, decoded, in order. */
export function queryValues(request: WebhookRequest, name: string): string[] {
  const at = request.url.indexOf('?');
  return at < 0 ? [] : new URLSearchParams(request.url.slice(at + 1)).getAll(name);
}

/** The query's only value of that name; undefined when it is absent or there twice. */
export function queryValue(request: WebhookRequest, name: string): string | undefined {
  const values = queryValues(request, name);
  return values.length === 1 ? values[0] : undefined;
}

/** Whether a value can be a challenge: short printable ASCII, so that an echo carries no markup of other alphabets or control characters. */
export function isChallenge(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_CHALLENGE && /^[\x20-\x7e]+$/.test(value);
}

/**
 * Whether a text is a token that a handshake signs with the key of the deliveries. The same question decides what is signed and which
 * deliveries are refused, so that the answer to a handshake is never the signature of a delivery.
 */
export function isToken(value: unknown): value is string {
  return typeof value === 'string' && /^[A-Za-z0-9_=+/.-]{1,256}$/.test(value);
}

/** Plain text that no browser takes for a page. */
export function textAnswer(text: string): Answer {
  return {
    status: 200,
    body: text,
    headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' },
  };
}

/** 200 without a body. */
export const EMPTY_OK: Answer = { status: 200, body: '' };
