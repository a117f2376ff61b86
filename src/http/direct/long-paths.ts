import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { targetOf } from '../../core/request.js';
import type { WebhookRoutes } from '../webhook.routes.js';

/** The part of Fastify that this file uses. */
export interface RouteAdding {
  addHook(
    name: 'onRoute',
    hook: (route: { readonly url: string; readonly method: unknown }) => void,
  ): unknown;
}

/** Fastify's limit for a part of a path is 100 characters, unless an application has set another. */
const SHORT = 100;

/**
 * Fastify answers 414 for a part of a path that is longer than its limit, before any hook, where Express finds no such source. The
 * module's own route answers 404 on both: for a path that no other route of the application may be meant by.
 */
export class LongPaths {
  private readonly wildcards: string[] = [];

  constructor(
    private readonly routes: WebhookRoutes,
    private readonly answer: (response: ServerResponse) => void,
  ) {}

  /** Before the application adds its routes. */
  watch(fastify: RouteAdding): void {
    fastify.addHook('onRoute', ({ url, method }) => {
      // That of CORS is for every path.
      if (method !== 'OPTIONS' && /[*(]/.test(url)) this.wildcards.push(url.split(/[*(:]/, 1)[0]!);
    });
  }

  /** In front of Fastify's own listener. */
  install(server: Server): void {
    const [fastify, ...others] = server.listeners('request');
    if (fastify === undefined || others.length > 0) return;
    server.removeAllListeners('request');
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const { url = '' } = request;
      // Older routers of Fastify do not know `HTTP://`, and take what follows the authority's `?` for the path.
      if (!url.startsWith('/')) request.url = targetOf(url)?.url ?? url;
      if (url.length > SHORT && this.isUnknown(url)) this.answer(response);
      else fastify.call(server, request, response);
    });
  }

  private isUnknown(url: string): boolean {
    const name = this.routes.sourceNameIn(url);
    return (
      name !== undefined && name.length > SHORT && !this.wildcards.some((start) => url.startsWith(start))
    );
  }
}
