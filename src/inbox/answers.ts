import type { Answer } from '../core/answer.js';
import type { Source } from '../core/options/resolve-source.js';
import type { Verdict } from './verdict.js';

const RETRY_AFTER_SECONDS = '5';

/** Every answer of the module. Bodies are fixed and short: the outside learns nothing from them. */
export const ANSWERS = {
  ok: { status: 200, body: { status: 'ok' } },
  duplicate: { status: 200, body: { status: 'duplicate' } },
  invalid: { status: 400, body: { status: 'invalid' } },
  unauthorized: { status: 401, body: { status: 'unauthorized' } },
  unknownSource: { status: 404, body: { status: 'not found' } },
  wrongMethod: { status: 405, body: { status: 'method not allowed' } },
  tooLarge: { status: 413, body: { status: 'too large' } },
  unsupportedEncoding: { status: 415, body: { status: 'unsupported encoding' } },
  failed: { status: 500, body: { status: 'failed' } },
  unavailable: {
    status: 503,
    body: { status: 'unavailable' },
    headers: { 'retry-after': RETRY_AFTER_SECONDS },
  },
} as const satisfies Record<string, Answer>;

/** The answer to a verdict; a 2xx in the provider's own form where it has one. */
export function answerTo(verdict: Verdict, source: Source): Answer {
  if (verdict.kind === 'ok' || verdict.kind === 'duplicate')
    return source.provider.ack ?? ANSWERS[verdict.kind];
  return ANSWERS[verdict.kind];
}
