/** What this needs of a request, as Express and Fastify both have it. */
export interface HeadersOf {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/**
 * Says why a request that changes something is refused, or undefined. A browser always tells where such a request comes from:
 * by Sec-Fetch-Site, or, if it is old, by Origin. A client without either is no browser, carries no cookies of a victim, and has
 * passed the guards.
 */
export function crossSiteFault(request: HeadersOf): string | undefined {
  const type = one(request, 'content-type')?.split(';', 1)[0]!.trim().toLowerCase();
  // A form can send three other types without asking the server first.
  if (type !== 'application/json') return 'expected content-type application/json';
  const site = one(request, 'sec-fetch-site');
  if (site !== undefined)
    return site === 'same-origin' ? undefined : `a request from ${site.slice(0, 20)} is refused`;
  const origin = one(request, 'origin');
  if (origin === undefined) return undefined;
  return hostOf(origin) === one(request, 'host') ? undefined : 'a request from another origin is refused';
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

function one({ headers }: HeadersOf, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}
