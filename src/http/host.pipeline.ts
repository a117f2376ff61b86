import { Inject, Injectable } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { match } from 'path-to-regexp';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { MAY_BE_DIRECT } from './controller.metadata.js';

/** A layer of Express's stack: a middleware, or a route. */
interface Layer {
  readonly name?: string;
  readonly route?: { readonly path: unknown };
}

/** Names of the body parsers that Nest and Express install. They have nothing to do with a body that was read. */
export const BODY_PARSERS: ReadonlySet<string> = new Set([
  'jsonParser',
  'urlencodedParser',
  'textParser',
  'rawParser',
  'multerMiddleware',
]);

/** Hooks that Fastify runs before the answer is on its way, from those on that read the bytes; how many of them are this module's. */
const LATER_HOOKS = { preParsing: 1, preValidation: 1, preHandler: 0, preSerialization: 0, onSend: 0 };

/** Name of the layer that reads the bytes, on Express. */
export const READER = 'webhookRawBodyReader';

/** What this needs to know of Express's adapter. */
interface ExpressAdapterLike {
  readonly onRequestHook?: unknown;
  readonly onResponseHook?: unknown;
  getInstance(): { readonly router?: { readonly stack?: readonly Layer[] } };
}

/** What the application has put on the way of a request to the module's own route. */
@Injectable()
export class HostPipeline {
  private empty: boolean | undefined;

  constructor(
    private readonly adapterHost: HttpAdapterHost,
    private readonly config: ApplicationConfig,
    @Inject(MAY_BE_DIRECT) private readonly mayBeDirect: boolean,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /**
   * Whether nothing is there. Looked at once, at the first request: by then everything has been installed.
   * @param path of the module's own route, as the adapter has it: `/webhooks/:source`
   * @param request of Fastify, whose routes have hooks of their own: each is looked at
   */
  isEmpty(path: string, request?: object): boolean {
    this.empty ??=
      this.mayBeDirect && !this.hasEnhancers() && (request !== undefined || !this.isOccupied(path));
    return this.empty && (request === undefined || hasNoHooks(request));
  }

  /** Pipes have no parameter of that route to change, filters no exception to catch. */
  private hasEnhancers(): boolean {
    const { config } = this;
    return [
      config.getGlobalGuards(),
      config.getGlobalRequestGuards(),
      config.getGlobalInterceptors(),
      config.getGlobalRequestInterceptors(),
      config.getGlobalPreRequestHooks?.() ?? [],
    ].some((enhancers) => enhancers.length > 0);
  }

  private isOccupied(path: string): boolean {
    const express = this.adapterHost.httpAdapter as unknown as ExpressAdapterLike;
    if (express.onRequestHook !== undefined || express.onResponseHook !== undefined) return true;
    const stack = express.getInstance().router?.stack ?? [];
    const to = stack.findLastIndex(({ route }) => route?.path === path);
    // The first is the adapter's own, for the hooks above. If that is not so, then better by the way that is always right.
    if (stack[1]?.name !== READER || to === -1) return true;
    const paths = [...this.options.sources.keys()].map((source) => path.replace(':source', source));
    return stack
      .slice(2, to)
      .some(({ name = '', route }) =>
        route === undefined ? !BODY_PARSERS.has(name) : meets(route.path, paths),
      );
  }
}

/** Whether a route may be met by requests for one of these paths. */
function meets(route: unknown, paths: readonly string[]): boolean {
  if (typeof route !== 'string') return true;
  const matches = match(route);
  return paths.some((path) => matches(path) !== false);
}

/** Fastify keeps what a request meets to itself. What is not found there may be anything. */
function hasNoHooks(request: object): boolean {
  const key = Object.getOwnPropertySymbols(request).find(
    ({ description }) => description === 'fastify.context',
  );
  const context =
    key && (request as Record<symbol, Record<string, readonly unknown[] | null | undefined>>)[key];
  if (context === undefined) return false;
  return Object.entries(LATER_HOOKS).every(
    ([hook, ours]) => context[hook] !== undefined && (context[hook]?.length ?? 0) === ours,
  );
}
