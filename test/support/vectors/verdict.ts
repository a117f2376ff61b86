import { isDeepStrictEqual } from 'node:util';
import { ConfigurationError, SignatureRejection } from '../../../src/core/errors.js';
import { RequestHeaders, type WebhookRequest } from '../../../src/core/request.js';
import type { SourceDefinition } from '../../../src/core/options/source.js';
import { handshakeAnswer, type VerifiedSignature } from '../../../src/inbox/delivery.verifier.js';
import { verifySignature } from '../verify-signature.js';
import type { RawReply } from '../http.js';
import { originOf, secretsOf, vectorSource } from './vector-source.js';
import { bodyOf, expectedVerdict, type Vector } from './vector.js';

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
    rawBody: bodyOf(vector),
  };
}

async function judgeSignature(vector: Vector, source: SourceDefinition): Promise<Verdict> {
  const outcome = await outcomeOf(vector, source);
  if (outcome instanceof SignatureRejection)
    return { verdict: 'invalid', why: `${outcome.reason}: ${outcome.message}` };
  return outcome.inWindow
    ? { verdict: 'valid', why: 'verified' }
    : { verdict: 'invalid', why: 'outside-window' };
}

async function outcomeOf(
  vector: Vector,
  source: SourceDefinition,
): Promise<VerifiedSignature | SignatureRejection> {
  try {
    return await verifySignature(
      source.provider,
      requestOf(vector),
      Array.isArray(source.secrets) ? (source.secrets as string[]) : [],
      toleranceMs(vector, source),
      vector.now === undefined ? Date.now() : vector.now * 1000,
    );
  } catch (error) {
    if (error instanceof SignatureRejection) return error;
    throw error;
  }
}

export function toleranceMs({ tolerance, provider }: Vector, source: SourceDefinition): number | undefined {
  if (tolerance === undefined) return source.provider.toleranceMs;
  if (tolerance === 0) return undefined;
  // Contentful's time to live is exclusive, ours is inclusive.
  return tolerance * 1000 - (provider === 'contentful' ? 1 : 0);
}

async function judgeChallenge(vector: Vector, source: SourceDefinition): Promise<Verdict> {
  const outcome = await outcomeOf(vector, source);
  const signature = outcome instanceof SignatureRejection ? undefined : outcome;
  const answer = await handshakeAnswer(
    source.provider,
    requestOf(vector),
    source.secrets as string[],
    signature,
  );
  if (answer === undefined) return { verdict: 'invalid', why: 'not answered' };
  const { status, body, headers = {} } = answer;
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return isAnswered(vector, { status, text, headers })
    ? { verdict: 'valid', why: 'answered' }
    : { verdict: 'invalid', why: `answered ${status} ${text}` };
}

/** Whether an answer is what a challenge wants: the text, the JSON or a value of it, or a header; any 2xx where nothing is said. */
export function isAnswered(
  { response }: Vector,
  { status, text, headers }: Pick<RawReply, 'status' | 'text' | 'headers'>,
): boolean {
  if (status >= 300) return false;
  if (response === undefined || response === text) return true;
  const json = jsonOf(text);
  if (typeof json !== 'object' || json === null) return Object.values(headers).includes(response);
  const wanted = typeof response === 'string' ? jsonOf(response) : response;
  return Object.values(json).includes(response) || isDeepStrictEqual(json, wanted);
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The query that carries a challenge, where a vector gives the challenge alone. */
const CHALLENGE_QUERIES: Readonly<Record<string, (challenge: string, secret: string) => object>> = {
  braintree: (challenge) => ({ bt_challenge: challenge }),
  dropbox: (challenge) => ({ challenge }),
  meta: (challenge, secret) => ({
    'hub.mode': 'subscribe',
    'hub.challenge': challenge,
    'hub.verify_token': secret,
  }),
  'x-twitter': (challenge) => ({ crc_token: challenge }),
};

function challengeUrl(vector: Vector): string {
  const { provider, challenge } = vector;
  const [secret = ''] = secretsOf(vector);
  const query = challenge === undefined ? undefined : CHALLENGE_QUERIES[provider]?.(challenge, secret);
  return query === undefined ? '/webhook' : `/webhook?${new URLSearchParams({ ...query }).toString()}`;
}
