import type { HttpAdapterHost } from '@nestjs/core';
import { match, type MatchFunction } from 'path-to-regexp';

/** How a path is compared with a route's. */
interface Rules {
  readonly sensitive: boolean;
  /** Whether a slash at the end makes no difference. */
  readonly trailing: boolean;
}

export interface PathRules {
  /** Those of the router, for routes of the application. */
  readonly router: Rules;
  /** Those of the module's own route: exact, unless the application has set its router otherwise itself. */
  readonly own: Rules;
}

interface ExpressLike {
  readonly router?: { readonly caseSensitive?: boolean; readonly strict?: boolean };
  readonly settings?: Readonly<Record<string, unknown>>;
}
interface FastifyConfig {
  readonly caseSensitive?: boolean;
  readonly ignoreTrailingSlash?: boolean;
}

const EXACT: Rules = { sensitive: true, trailing: false };

/**
 * By default Express takes `/WEBHOOKS/github/` for `/webhooks/github`, and Fastify does not. The module's own route is exact on both.
 * Settings of the application are honoured.
 */
export function pathRules(adapter: HttpAdapterHost['httpAdapter'] | null | undefined): PathRules {
  const type = adapter?.getType?.();
  if (type === 'express') return expressRules(adapter!.getInstance<ExpressLike>());
  if (type === 'fastify') return fastifyRules(adapter!.getInstance());
  return { router: EXACT, own: EXACT };
}

function expressRules({ router, settings }: ExpressLike): PathRules {
  const sensitive = router?.caseSensitive === true;
  const trailing = router?.strict !== true;
  return {
    router: { sensitive, trailing },
    own: {
      sensitive: sensitive || settings?.['case sensitive routing'] !== false,
      trailing: trailing && settings?.['strict routing'] === false,
    },
  };
}

function fastifyRules({ initialConfig = {} }: FastifyLike): PathRules {
  const { routerOptions = {} } = initialConfig;
  const rules = {
    sensitive: routerOptions.caseSensitive !== false && initialConfig.caseSensitive !== false,
    trailing: routerOptions.ignoreTrailingSlash === true || initialConfig.ignoreTrailingSlash === true,
  };
  return { router: rules, own: rules };
}

interface FastifyLike {
  readonly initialConfig?: FastifyConfig & { readonly routerOptions?: FastifyConfig };
}

export type PathMatcher = MatchFunction<Partial<Record<string, string | string[]>>>;

export function pathMatcher(path: string, { sensitive, trailing }: Rules): PathMatcher {
  // As Express does: a route with a slash at its end is met without one, too.
  const loose = trailing && path !== '/' ? path.replace(/\/+$/, '') : path;
  return match(loose, { sensitive, trailing, decode });
}

/** As decodeURIComponent, which throws for '%ZZ': such a path names no source, and the adapter answers it. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
