import { headOf } from '../core/event.js';

import { isIP } from 'node:net';

/** The part of a request that this file uses, as Express and Fastify both have it. */
export interface HeadersOf {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/**
 * Says why a request that changes something is refused, or undefined. A browser always says where such a request comes from: by
 * Sec-Fetch-Site, or, if it is old, by Origin. A client without either is no browser, carries no cookies of a victim, and has passed the
 * guards.
 */
export function crossSiteFault(request: HeadersOf): string | undefined {
  const type = one(request, 'content-type')?.split(';', 1)[0]!.trim().toLowerCase();
  // A form can send three other types without asking the server first.
  if (type !== 'application/json') return 'expected content-type application/json';
  const site = one(request, 'sec-fetch-site');
  if (site !== undefined)
    return site === 'same-origin' ? undefined : `a request from ${headOf(site, 20)} is refused`;
  const origin = one(request, 'origin');
  if (origin === undefined) return undefined;
  // HTTP/2 has the host under another name. Without one, the origin 'null' is not the same.
  const host = one(request, 'host') ?? one(request, ':authority');
  const isOwn = host !== undefined && hostOf(origin) === host;
  return isOwn ? undefined : 'a request from another origin is refused';
}

/**
 * Says why a request to a dashboard without a guard is refused, or undefined. A name that is not this machine's own may belong to an
 * attacker, whose page then reads and acts as if it were ours (DNS rebinding). Addresses cannot be rebound.
 */
export function foreignNameFault(request: HeadersOf): string | undefined {
  const name = hostOf(`http://${one(request, 'host') ?? ''}`, 'hostname')?.replace(/^\[|\]$/g, '') ?? '';
  if (isIP(name) !== 0 || /(?:^|\.)localhost$/i.test(name)) return undefined;
  return `without a guard this page answers to localhost and to addresses only, not to '${headOf(name, 100)}'`;
}

function hostOf(origin: string, part: 'host' | 'hostname' = 'host'): string | undefined {
  return URL.canParse(origin) ? new URL(origin)[part] : undefined;
}

function one({ headers }: HeadersOf, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}
