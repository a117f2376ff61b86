import { ConfigurationError, SignatureRejection } from '../../../src/core/errors.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import type { SourceDefinition } from '../../../src/core/source.js';
import { verifySignature } from '../../../src/sources/verification.js';
import { originOf, vectorSource } from './vector-source.js';
import { expectedVerdict, type Vector } from './vector.js';

export interface Verdict {
  readonly verdict: 'valid' | 'invalid';
  readonly why: string;
}

/** Judges a vector through the same code as the HTTP guard. A throw of anything but a rejection is not caught. */
export async function judge(vector: Vector): Promise<Verdict> {
  let source: SourceDefinition;
  try {
    source = vectorSource(vector);
  } catch (error) {
    // An application with such a source would not start.
    if (error instanceof ConfigurationError) return { verdict: 'invalid', why: error.message };
    throw error;
  }
  return vector.variant === 'challenge' ? judgeChallenge(vector, source) : judgeSignature(vector, source);
}

/** What is wrong with our verdict, or undefined. */
export async function failureOf(vector: Vector): Promise<string | undefined> {
  try {
    const { verdict, why } = await judge(vector);
    const expected = expectedVerdict(vector);
    return verdict === expected ? undefined : `expected ${expected}, is ${verdict} (${why})`;
  } catch (error) {
    return `threw ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`;
  }
}

export function requestOf(vector: Vector): WebhookRequest {
  const url = vector.url ?? challengeUrl(vector);
  return {
    method: vector.method ?? 'POST',
    url: vector.url === undefined ? url : url.slice(originOf(url).length),
    headers: RequestHeaders.from(vector.headers),
    rawBody:
      vector.body_base64 === undefined
        ? Buffer.from(vector.body ?? '', 'utf8')
        : Buffer.from(vector.body_base64, 'base64'),
  };
}

async function judgeSignature(vector: Vector, source: SourceDefinition): Promise<Verdict> {
  try {
    const result = await verifySignature(
      source.provider,
      requestOf(vector),
      Array.isArray(source.secrets) ? (source.secrets as string[]) : [],
      toleranceMs(vector, source),
      vector.now === undefined ? Date.now() : vector.now * 1000,
    );
    return result.inWindow
      ? { verdict: 'valid', why: 'verified' }
      : { verdict: 'invalid', why: 'outside-window' };
  } catch (error) {
    if (!(error instanceof SignatureRejection)) throw error;
    return { verdict: 'invalid', why: `${error.reason}: ${error.message}` };
  }
}

export function toleranceMs({ tolerance, provider }: Vector, source: SourceDefinition): number | undefined {
  if (tolerance === undefined) return source.provider.toleranceMs;
  if (tolerance === 0) return undefined;
  // Contentful's time to live is exclusive, ours is inclusive.
  return tolerance * 1000 - (provider === 'contentful' ? 1 : 0);
}

async function judgeChallenge(vector: Vector, source: SourceDefinition): Promise<Verdict> {
  const { handshake } = source.provider;
  const request = requestOf(vector);
  const { verdict } = await judgeSignature(vector, source);
  const answer = handshake?.methods.includes(request.method)
    ? handshake.answer(request, source.secrets as string[], verdict === 'valid')
    : undefined;
  if (answer === undefined || answer.status >= 300) return { verdict: 'invalid', why: 'not answered' };
  const { body } = answer;
  const texts = typeof body === 'string' ? [body] : [JSON.stringify(body), ...Object.values(body)];
  return texts.includes(vector.response ?? undefined)
    ? { verdict: 'valid', why: 'answered' }
    : { verdict: 'invalid', why: `answered ${JSON.stringify(body)}` };
}

/** The query that carries a challenge, where a vector gives the challenge alone. */
const CHALLENGE_QUERIES: Readonly<Record<string, string>> = {
  braintree: 'bt_challenge',
  dropbox: 'challenge',
  meta: 'hub.challenge',
  'x-twitter': 'crc_token',
};

function challengeUrl({ provider, challenge }: Vector): string {
  const name = CHALLENGE_QUERIES[provider];
  return challenge === undefined || name === undefined
    ? '/webhook'
    : `/webhook?${name}=${encodeURIComponent(challenge)}`;
}
