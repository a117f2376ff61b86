import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { ApplicationConfig, HttpAdapterHost } from '@nestjs/core';
import { DASHBOARD, type ResolvedDashboard } from './dashboard.options.js';

/** The part of a Fastify instance that this file uses. */
interface Routes {
  hasRoute(route: { method: 'GET'; url: string }): boolean;
  get(url: string, handler: (request: unknown, reply: { redirect(to: string): unknown }) => unknown): void;
}

/**
 * Fastify takes an address with a slash at its end for another one, and Nest registers none. A browser that asks for it is redirected to
 * the page, where the guards run.
 */
@Injectable()
export class TrailingSlash implements OnApplicationBootstrap {
  constructor(
    @Inject(DASHBOARD) private readonly options: ResolvedDashboard,
    private readonly config: ApplicationConfig,
    private readonly adapterHost: HttpAdapterHost,
  ) {}

  onApplicationBootstrap(): void {
    const adapter = this.adapterHost.httpAdapter;
    if (adapter?.getType() !== 'fastify') return;
    const routes = adapter.getInstance<Routes>();
    const parts = [...this.config.getGlobalPrefix().split('/'), ...this.options.path.split('/')].filter(
      Boolean,
    );
    const page = `/${parts.join('/')}`;
    // The prefix may leave the page out: the address is then the application's.
    if (!routes.hasRoute({ method: 'GET', url: page })) return;
    try {
      // Relative, since a proxy may have stripped a prefix that is unknown here.
      routes.get(`${page}/`, (_, reply) => reply.redirect(`../${parts.at(-1)!}`));
    } catch (error) {
      // Fastify ignores the slash by an option of its own, which hasRoute() does not look at, or the application answers there.
      if ((error as { readonly code?: unknown }).code !== 'FST_ERR_DUPLICATED_ROUTE') throw error;
    }
  }
}
