import { setTimeout as sleep } from 'node:timers/promises';
import type { Source } from '../../core/options/resolve-source.js';
import type { SignedWebhook } from '../../sources/signers/sign-webhook.js';
import type { Session } from '../session/session.js';

/** The answer to a request. */
export interface Received {
  /** Undefined where nothing answered. */
  readonly status: number | undefined;
  readonly body: string;
  readonly expected: Expected;
  readonly asExpected: boolean;
}
/** `accepted`: any 2xx. `ok` and `duplicate`: a 2xx whose body says so, or the provider's own acknowledgement. */
type Expected = 'ok' | 'duplicate' | 'accepted' | 'refused';

/** The options of `send` that an answer depends on. */
interface Asked {
  readonly tamper?: boolean;
  readonly skew?: number;
  readonly times: number;
  readonly id?: string;
  readonly file?: string;
}

const TIMEOUT_MS = 30_000;
const MAX_BODY = 300;
/** The application writes down why it refused a request within its next rounds. */
const EXPLAINED_MS = 30_000;

export function expectedAnswers(
  { signsTime, signsBody }: SignedWebhook,
  { toleranceMs, provider }: Source,
  { tamper, skew = 0, times, id, file }: Asked,
): Expected[] {
  const isRefused =
    (tamper === true && signsBody) || (signsTime && toleranceMs !== undefined && skew > toleranceMs);
  return Array.from({ length: times }, (_, nth): Expected => {
    if (isRefused) return 'refused';
    if (provider.ack !== undefined) return 'accepted';
    if (nth > 0) return 'duplicate';
    // An id that is given, or in a body that is given, may be known already.
    return id === undefined && file === undefined ? 'ok' : 'accepted';
  });
}

export async function received(
  url: string,
  { method, headers, body }: Pick<SignedWebhook, 'method' | 'headers' | 'body'>,
  expected: Expected,
): Promise<Received> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await fetch(url, {
      method,
      headers,
      body: new Uint8Array(body),
      redirect: 'manual',
      signal,
    });
    const text = (await response.text()).slice(0, MAX_BODY);
    return {
      status: response.status,
      body: text,
      expected,
      asExpected: fits(expected, response.status, text),
    };
  } catch (error) {
    return { status: undefined, body: causeOf(error), expected, asExpected: false };
  }
}

function fits(expected: Expected, status: number, body: string): boolean {
  if (expected === 'refused') return status === 401;
  const isAccepted = status >= 200 && status < 300;
  return isAccepted && (expected === 'accepted' || body.includes(`"${expected}"`));
}

function causeOf(error: unknown): string {
  const { cause, message } = error instanceof Error ? error : new Error(String(error));
  return cause instanceof Error && cause.message !== '' ? cause.message : message;
}

const MEANING: Readonly<Record<number, string>> = {
  400: 'verified, and its event id cannot be used: it is missing, blank, or not text',
  401: 'the signature is wrong: another secret, changed bytes, another URL, or a time outside the window',
  404: 'no such path or source there: look at the path, at a global prefix, and at the name of the source',
  405: 'the source takes another method',
  413: "larger than the source's maxBytes",
  415: 'an encoding that the source does not accept',
  500: 'a handler failed while the provider waits (retries: provider, or inline)',
  503: 'not now: the database cannot be used, a limit is reached, or the same event is being handled',
};

/** The meaning of an answer, in a sentence. */
export function explained({ status, body }: Received, { provider }: Source): string {
  if (status === undefined) return 'no server answers there: is the application running, and is --url right?';
  if (status >= 200 && status < 300) {
    if (body.includes('"duplicate"')) return 'known before: nothing runs again';
    if (body.includes('"ok"') || provider.ack !== undefined) return 'claimed and committed: its handlers run';
    return 'accepted, but not by this module: a guard, a middleware or a proxy has answered';
  }
  return MEANING[status] ?? 'not an answer of this module: a guard, a middleware or a proxy has answered';
}

/** Why the running application refused a request, as it has written down; undefined where it has written nothing. */
export async function storedExplanation(
  session: Session,
  source: string,
  since: Date,
): Promise<string | undefined> {
  const end = Date.now() + EXPLAINED_MS;
  while (Date.now() < end) {
    const { rejections } = await session.inspector.rejections(`source:${source}`);
    const [newest] = rejections;
    if (newest !== undefined && newest.at.getTime() >= since.getTime() - 1_000) return newest.explanation;
    await sleep(500);
  }
  return undefined;
}
