import { toMs, type Duration } from '../core/options/duration.js';
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

/** The part of the context that an HTTP effect uses. */
export type HttpEffectContext = Pick<EffectContext, 'key' | 'signal' | 'timeoutMs'>;

const client = new HttpClient();

/**
 * The most common effect: one HTTP request under the effect's key. Return its response, and it is kept as the effect's result. It goes to
 * https and public addresses only, since a URL from a payload may name the cloud's metadata service or a neighbour. Each name is resolved
 * once and judged, and that very address is connected to. Redirects are not followed.
 * @throws HttpFailure for anything but 2xx. 408, 429 and 5xx are tried again, not before `Retry-After`. Other 4xx are permanent
 * @throws PermanentError for a redirect; DestinationRefused, which is permanent too
 */
export async function httpEffect(
  request: HttpEffectRequest,
  context: HttpEffectContext,
): Promise<HttpResponse> {
  const sent = checked(request, context.key);
  const response = await client.send({
    ...sent,
    url: request.url,
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

/** A mistake in the request is the same at each attempt. @throws PermanentError */
function checked(request: HttpEffectRequest, key: string) {
  const { method = 'POST', json, body } = request;
  if (typeof method !== 'string' || !TOKEN.test(method) || method.toUpperCase() === 'CONNECT')
    throw wrong('method', "one such as 'POST'", method);
  if (body !== undefined && typeof body !== 'string' && !(body instanceof Uint8Array))
    throw wrong('body', 'text or bytes', body);
  return {
    method,
    headers: headersOf(request, key),
    body: body ?? (json === undefined ? undefined : jsonOf(json)),
  };
}

function jsonOf(json: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(json);
  } catch (error) {
    throw new PermanentError(`httpEffect: json: ${String(error)}`, { cause: error });
  }
  if (text === undefined) throw wrong('json', 'a value that JSON has', json);
  return text;
}

/** Names of methods and headers. */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** Without line breaks, which would begin another header, and characters that have no byte. */
const VALUE = /^[\t\u0020-\u007e\u0080-\u00ff]*$/;

/** The value itself may be a payload's. */
const wrong = (what: string, expected: string, received: unknown) =>
  new PermanentError(
    `httpEffect: ${what}: expected ${expected}, received ${
      received === null
        ? 'null'
        : typeof received === 'string'
          ? 'other text'
          : `a value of type ${typeof received}`
    }`,
  );

function headersOf({ headers, json, body, keyHeader = 'Idempotency-Key' }: HttpEffectRequest, key: string) {
  if (json !== undefined && body !== undefined)
    throw new PermanentError('httpEffect: expected json or body, received both');
  const sent = new Map([['user-agent', 'nestjs-webhook-inbox']]);
  if (json !== undefined) sent.set('content-type', 'application/json');
  for (const [name, given] of Object.entries<unknown>(headers ?? {})) {
    checkName('headers: a name', name);
    const value = typeof given === 'number' ? String(given) : given;
    if (typeof value !== 'string' || !VALUE.test(value))
      throw wrong(`headers: ${name}`, 'text of latin-1 without line breaks', value);
    sent.set(name.toLowerCase(), value);
  }
  // Last: a key of the caller's own would differ from the one that the row is known by.
  if (keyHeader !== false) {
    checkName('keyHeader', keyHeader);
    sent.set(keyHeader.toLowerCase(), key);
  }
  return Object.fromEntries(sent);
}

function checkName(what: string, name: unknown): void {
  if (typeof name !== 'string' || !TOKEN.test(name)) throw wrong(what, "a header's name", name);
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
