// undici, not the global fetch: its Agent takes our lookup for each connection. Its `request` follows no redirect, and sends exactly the
// given bytes and headers.
import { Agent, request as send, type Dispatcher } from 'undici';
import { headOf } from '../core/event.js';
import { MAX_TIMER_MS } from '../core/options/duration.js';
import { PermanentError, WebhookInboxError } from '../core/errors.js';
import { addressRules, type AddressRules } from './address-rules.js';
import { checkedLookup, destination, DestinationRefused, type Resolve } from './destination.js';

/** Exceptions to the rule that a call goes over https to public addresses. */
export interface Allow {
  /** @default false */
  readonly http?: boolean;
  /** Private, loopback, link-local and other special addresses: all, or blocks such as '10.1.0.0/16'. @default false */
  readonly privateAddresses?: boolean | readonly string[];
}

/** A request for `HttpClient`. */
export interface HttpRequest {
  readonly url: string | URL;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  /** For the whole call, the response's body included, in milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
  readonly allow?: Allow;
}

/** The answer to a request. */
export interface HttpResponse {
  readonly status: number;
  /** Lower-case names; without cookies, which are credentials. */
  readonly headers: Readonly<Record<string, string>>;
  /** As text; cut so that the whole response fits into 64 kB of JSON. */
  readonly body: string;
  readonly truncated: boolean;
}

const KEPT_BYTES = 64 * 1024;

/** Sends requests to where they may go. One pool of connections for each set of allowed addresses. */
export class HttpClient {
  private readonly ways = new Map<string, { readonly mayConnect: AddressRules; readonly agent: Agent }>();

  /** @param resolve in place of DNS */
  constructor(private readonly resolve?: Resolve) {}

  /**
   * Sends one request and follows no redirect. Any status is a response.
   * @throws DestinationRefused; WebhookInboxError TIMED_OUT; the signal's reason; the error that broke the connection
   */
  async send({
    url,
    method,
    headers,
    body,
    timeoutMs,
    signal,
    allow = {},
  }: HttpRequest): Promise<HttpResponse> {
    signal?.throwIfAborted();
    const { mayConnect, agent } = this.way(allow.privateAddresses ?? false);
    const target = destination(url, allow.http ?? false, mayConnect);
    const limit = new AbortController();
    const abort = () => limit.abort(signal?.reason);
    signal?.addEventListener('abort', abort, { once: true });
    const timer = setTimeout(
      () => limit.abort(timedOut(target, timeoutMs)),
      Math.min(Math.max(timeoutMs, 1), MAX_TIMER_MS),
    );
    try {
      const options = { method, headers, body: body ?? null };
      const response = await send(target, { ...options, dispatcher: agent, signal: limit.signal });
      return await read(response);
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : (refusal(error) ?? told(error));
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Closes the idle connections. */
  async close(): Promise<void> {
    await Promise.all([...this.ways.values()].map(({ agent }) => agent.close()));
    this.ways.clear();
  }

  private way(privateAddresses: boolean | readonly string[]) {
    const key = JSON.stringify(privateAddresses);
    let way = this.ways.get(key);
    if (way === undefined) {
      const mayConnect = addressRules(privateAddresses);
      const agent = new Agent({ connect: { lookup: checkedLookup(mayConnect, this.resolve) } });
      this.ways.set(key, (way = { mayConnect, agent }));
    }
    return way;
  }
}

async function read({ statusCode, headers, body }: Dispatcher.ResponseData): Promise<HttpResponse> {
  const chunks: Buffer[] = [];
  let size = 0;
  // Leaving the loop ends the connection, so that an answer of gigabytes is not read.
  for await (const chunk of body as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > KEPT_BYTES) break;
  }
  return fit({
    status: statusCode,
    headers: plain(headers),
    body: Buffer.concat(chunks).subarray(0, KEPT_BYTES).toString('utf8'),
    truncated: size > KEPT_BYTES,
  });
}

/** Escapes and headers count too, since this response is kept as JSON beside the effect's row. */
function fit(response: HttpResponse): HttpResponse {
  const excess = Buffer.byteLength(JSON.stringify(response)) - KEPT_BYTES;
  if (excess <= 0 || response.body === '') return response;
  // A character takes 6 bytes of JSON at most, so that no more goes than must; where it took fewer, another round follows.
  const keep = response.body.length - Math.ceil(excess / 6);
  return fit({ ...response, body: headOf(response.body, Math.max(0, keep)), truncated: true });
}

function plain(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(headers)
      .filter(([name, value]) => value !== undefined && name !== 'set-cookie')
      .map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value!]),
  );
}

/** undici hands the lookup's error on as it is, or as the cause of another. */
function refusal(error: unknown): DestinationRefused | undefined {
  if (error instanceof DestinationRefused) return error;
  return error instanceof Error && error.cause !== undefined ? refusal(error.cause) : undefined;
}

const NO_CONNECTION = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
]);

/** Errors for requests that undici refuses to send. The next attempt would get the same. */
const NOT_SENDABLE = new Set([
  'UND_ERR_INVALID_ARG',
  'UND_ERR_NOT_SUPPORTED',
  'UND_ERR_REQ_CONTENT_LENGTH_MISMATCH',
]);

/** Without a connection nothing was sent; only here is it known whose connection it was. */
function told(error: unknown): unknown {
  const { code } = error as { code?: unknown };
  if (error instanceof Error && typeof code === 'string' && NOT_SENDABLE.has(code))
    return new PermanentError(`the request cannot be sent: ${error.message}`, { cause: error });
  return error instanceof Error && typeof code === 'string' && NO_CONNECTION.has(code)
    ? Object.assign(error, { notDone: true })
    : error;
}

function timedOut(url: URL, timeoutMs: number): WebhookInboxError {
  return new WebhookInboxError('TIMED_OUT', `${url.origin} did not answer within ${timeoutMs} ms`);
}
