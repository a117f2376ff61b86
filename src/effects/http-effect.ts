import { toMs, type Duration } from '../core/duration.js';
import { HttpFailure, PermanentError } from '../core/errors.js';
import type { EffectContext } from '../core/context.js';
import { HttpClient, type Allow, type HttpResponse } from './http-client.js';

/** A call to the outside world. */
export interface HttpEffectRequest {
  /** https, to a public address; see `allow`. */
  readonly url: string | URL;
  /** @default 'POST' */
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly json?: unknown;
  /** Sent as it is, instead of `json`. */
  readonly body?: string | Uint8Array;
  /** For the whole call. At most nine tenths of the effect's own time-out, so that the attempt ends with a reason. @default '10s' */
  readonly timeout?: Duration;
  /** Name of the header that carries the idempotency key; false for sinks that refuse it. @default 'Idempotency-Key' */
  readonly keyHeader?: string | false;
  /** Opens this call, and no other, to plain http or to addresses that are not public. @default { } */
  readonly allow?: Allow;
}

/** What an HTTP effect needs of its context. */
export type HttpEffectContext = Pick<EffectContext, 'key' | 'signal' | 'timeoutMs'>;

const client = new HttpClient();

/**
 * The most common effect: one HTTP request under the effect's key. Return its response, and it is kept as the effect's result.
 *
 * It goes to https and public addresses only, since a URL that comes from a payload may name the cloud's metadata service or a
 * neighbour: each name is resolved once, judged, and that very address is connected to; redirects are not followed.
 * @throws HttpFailure for anything but 2xx: 408, 429 and 5xx are tried again, not before `Retry-After`; other 4xx are permanent
 * @throws PermanentError for a redirect; DestinationRefused, which is permanent too
 */
export async function httpEffect(
  request: HttpEffectRequest,
  context: HttpEffectContext,
): Promise<HttpResponse> {
  const response = await client.send({
    url: request.url,
    method: request.method ?? 'POST',
    headers: headersOf(request, context.key),
    body: request.body ?? (request.json === undefined ? undefined : JSON.stringify(request.json)),
    timeoutMs: Math.min(timeoutOf(request), context.timeoutMs * 0.9),
    signal: context.signal,
    allow: request.allow,
  });
  const { status, headers, body } = response;
  if (status >= 200 && status < 300) return response;
  const failure = new HttpFailure(status, headers, body, new URL(request.url).origin);
  if (status >= 400) throw failure;
  const to = headers.location === undefined ? '' : `, to ${originOf(headers.location)}`;
  throw new PermanentError(`${failure.message}${to}: redirects are not followed; call the final URL`, {
    cause: failure,
  });
}

function headersOf({ headers, json, body, keyHeader = 'Idempotency-Key' }: HttpEffectRequest, key: string) {
  if (json !== undefined && body !== undefined)
    throw new PermanentError('httpEffect: expected json or body, received both');
  const sent = new Map([['user-agent', 'nestjs-webhook-inbox']]);
  if (json !== undefined) sent.set('content-type', 'application/json');
  for (const [name, value] of Object.entries(headers ?? {})) sent.set(name.toLowerCase(), value);
  // Last: a key of the caller's own would differ from the one that the row is known by.
  if (keyHeader !== false) sent.set(keyHeader.toLowerCase(), key);
  return Object.fromEntries(sent);
}

function timeoutOf({ timeout = '10s' }: HttpEffectRequest): number {
  const ms = toMs(timeout);
  if (ms === undefined)
    throw new PermanentError(`httpEffect: timeout: expected a duration such as '10s', received '${timeout}'`);
  return ms;
}

function originOf(location: string): string {
  return URL.canParse(location) ? new URL(location).origin : 'a path of the same host';
}
