import { Inject, Injectable } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { match } from 'path-to-regexp';
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

/** Hooks that Fastify runs behind the one that reads the bytes, and before the answer is on its way. */
const LATER_HOOKS = new Set(['preParsing', 'preValidation', 'preHandler', 'preSerialization', 'onSend']);

/** What takes hooks: a Fastify instance. */
export interface Hooked {
  addHook: (this: unknown, name: string, ...rest: unknown[]) => unknown;
}

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
  /** Fastify keeps its hooks to itself: they are noted when they are added. */
  private hooks = 0;

  constructor(
    private readonly adapterHost: HttpAdapterHost,
    private readonly config: ApplicationConfig,
    @Inject(MAY_BE_DIRECT) private readonly mayBeDirect: boolean,
  ) {}

  /**
   * Whether nothing is there. Looked at once, at the first request: by then everything has been installed.
   * @param path of the module's own route, as the adapter has it: `/webhooks/:source`
   * @param reader name of the layer that reads the bytes, on Express
   */
  isEmpty(path: string, reader: string): boolean {
    this.empty ??= this.mayBeDirect && !this.hasEnhancers() && !this.isOccupied(path, reader);
    return this.empty;
  }

  /** Notes hooks of others from now on. */
  watchHooks(fastify: Hooked): void {
    const { addHook } = fastify;
    const note = (name: string) => {
      if (LATER_HOOKS.has(name)) this.hooks += 1;
    };
    // The instances of plugins inherit it, and their hooks are for what is theirs.
    fastify.addHook = function (name, ...rest) {
      note(name);
      return addHook.call(this, name, ...rest);
    };
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

  private isOccupied(path: string, reader: string): boolean {
    const { httpAdapter } = this.adapterHost;
    if (httpAdapter.getType() === 'fastify') return this.hooks > 0;
    const express = httpAdapter as unknown as ExpressAdapterLike;
    if (express.onRequestHook !== undefined || express.onResponseHook !== undefined) return true;
    const stack = express.getInstance().router?.stack ?? [];
    const to = stack.findIndex(({ route }) => route?.path === path);
    // The first is the adapter's own, for the hooks above. If that is not so, then better by the way that is always right.
    if (stack[1]?.name !== reader || to === -1) return true;
    return stack
      .slice(2, to)
      .some(({ name = '', route }) =>
        route === undefined ? !BODY_PARSERS.has(name) : meets(route.path, path),
      );
  }
}

/** Whether a route may be met by requests for the module's own one. */
function meets(route: unknown, path: string): boolean {
  if (typeof route !== 'string') return true;
  return match(route)(path) !== false || match(path)(route) !== false;
}
