import { AsyncLocalStorage } from 'node:async_hooks';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { ClientRequest } from 'node:http';

/** Whose code runs. */
export interface Running {
  readonly kind: 'handler' | 'effect';
  readonly name: string;
  /** The idempotency key of an effect. */
  readonly key?: string;
  /** Whether its application has crashed. Its later calls do not count. */
  isDead(): boolean;
}

export const running = new AsyncLocalStorage<Running>();

/** A request that a handler or an effect sent. */
export interface OutsideCall {
  readonly by: Running;
  /** Method and URL. */
  readonly line: string;
  /** The idempotency key. Undefined when there is none. */
  readonly key: string | undefined;
}

/** They change nothing at the other side. */
const SAFE = /^(GET|HEAD|OPTIONS|TRACE)$/;
const KEY_HEADER = /idempot|dedup|request-?id/i;

/** Observes the HTTP requests of the process by Node's diagnostics channels. It changes none. */
export class OutsideCalls {
  private readonly seen: OutsideCall[] = [];

  start(): void {
    subscribe('undici:request:create', this.onFetch);
    subscribe('http.client.request.start', this.onHttp);
  }

  stop(): void {
    unsubscribe('undici:request:create', this.onFetch);
    unsubscribe('http.client.request.start', this.onHttp);
  }

  /** Those since `forget`. */
  get all(): readonly OutsideCall[] {
    return this.seen;
  }

  forget(): void {
    this.seen.length = 0;
  }

  private readonly onFetch = (message: unknown): void => {
    const { request } = message as {
      readonly request: {
        readonly origin?: unknown;
        readonly path?: string;
        readonly method?: string;
        readonly headers?: unknown;
      };
    };
    const { origin, path = '', method = '' } = request;
    this.note(method, `${String(origin)}${path}`, pairsOf(request.headers));
  };

  private readonly onHttp = (message: unknown): void => {
    const { request } = message as { readonly request: ClientRequest };
    const headers = Object.entries(request.getHeaders()).map(([name, value]): [string, string] => [
      name,
      String(value),
    ]);
    this.note(request.method, `${request.protocol}//${request.host}${request.path}`, headers);
  };

  private note(method: string, url: string, headers: readonly [string, string][]): void {
    const by = running.getStore();
    if (by === undefined || by.isDead() || SAFE.test(method)) return;
    const carries = (text: string) => by.key !== undefined && text.includes(by.key);
    const named = headers.filter(([name]) => KEY_HEADER.test(name)).map(([, value]) => value);
    const isKeyed = carries(url) || headers.some(([, value]) => carries(value));
    const key = isKeyed ? by.key : named.length > 0 ? named.join(' ') : undefined;
    this.seen.push({ by, line: `${method} ${url}`, key });
  }
}

/** undici has them as a list of names and values, and older versions as one text. */
function pairsOf(headers: unknown): [string, string][] {
  if (typeof headers === 'string')
    return headers.split('\r\n').flatMap((line): [string, string][] => {
      const colon = line.indexOf(':');
      return colon < 0 ? [] : [[line.slice(0, colon), line.slice(colon + 1).trim()]];
    });
  const list = Array.isArray(headers) ? headers.map(String) : [];
  return list.flatMap((name, at): [string, string][] => (at % 2 === 0 ? [[name, list[at + 1] ?? '']] : []));
}
