import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine, type LogLine } from '../core/log/log.js';
import { Throttle } from '../core/log/throttle.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { WebhookRoutes } from './webhook.routes.js';

const HOST = 'https://<your host>';
/** Handlers of a source that its line names, and types of a handler. */
const MAX_HANDLERS = 10;
const MAX_TYPES = 5;

/** Logs the URL of each source for its provider, and the handlers that run there. */
@Injectable()
export class SourceUrls {
  private readonly logger = new InboxLogger();
  private readonly lines = new Throttle();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly adapterHost: HttpAdapterHost,
    private readonly routes: WebhookRoutes,
    private readonly registry: HandlerRegistry,
  ) {}

  /** A line for each source, after Nest has made its routes. */
  logAll(): void {
    const serves = Boolean(this.adapterHost.httpAdapter as HttpAdapterHost['httpAdapter'] | null | undefined);
    for (const source of this.options.sources.keys()) {
      // An application context serves no requests, although it may declare routes.
      if (serves) this.logServed(source);
      else this.logger.log(oneSource(source, this.whatRuns(source)));
    }
  }

  private logServed(source: string): void {
    const { own, routes } = this.routes.paths(source);
    const paths = this.registry.hasOnlyRoutes(source) ? routes : [...own, ...routes];
    const urls = paths.map((path) => HOST + path).join(' and ');
    const where = urls === '' ? 'is served at no URL: it is for Inbox.receive(…)' : `is served at ${urls}`;
    const line = oneSource(source, `${where}; ${this.whatRuns(source)}`);
    // A class that no module provides is missing without an error.
    if (urls !== '' && !this.registry.takesAny(source)) this.logger.warn(line);
    else this.logger.log(line);
    const both = routes.find((path) => own.includes(path));
    if (both !== undefined) this.warnTwice(source, both);
    else if (routes.length > 0 && paths.length > routes.length) this.warnApart(source, own, routes);
  }

  private whatRuns(source: string): string {
    const short = (name: string) => name.slice(source.length + 1);
    const handlers = this.registry
      .handlersOf(source)
      .map(({ name, types }) => `${short(name)} (${listed(types, MAX_TYPES)})`);
    const routes = this.registry.routesOf(source).map((name) => `${short(name)} (@UseWebhook)`);
    const all = [...handlers, ...routes];
    if (all.length > 0) return `runs ${listed(all, MAX_HANDLERS)}`;
    return (
      `it has no handler: each event is kept as skipped. Expected a class with @OnWebhook('${source}', …) among the providers of a ` +
      `module, in each process that receives: the receiver makes the rows of an event`
    );
  }

  /** A delivery came to the module's own route, and the only taker of its source is a route of the application's. Warns once a minute. */
  warnOfOwnRoute(source: string): void {
    if (this.lines.admit(source) === undefined) return;
    const { own, routes } = this.routes.paths(source);
    this.logger.warn(
      oneSource(
        source,
        `was sent an event at ${own.join(' and ')}, where no handler takes it: it is kept as skipped until it is sent to the route with ` +
          `@UseWebhook, at ${HOST}${routes.join(' and ')}: set that URL at the provider`,
      ),
    );
  }

  /** An event that comes to both is handled where it came first. */
  private warnApart(source: string, own: readonly string[], routes: readonly string[]): void {
    this.logger.warn(
      oneSource(
        source,
        `has handlers and a route with @UseWebhook: an event at ${own.join(' and ')} runs the handlers and never the route, an event ` +
          `at ${routes.join(' and ')} runs both. Set one URL at the provider: the route's`,
      ),
    );
  }

  private warnTwice(source: string, path: string): void {
    this.logger.warn(
      oneSource(
        source,
        `has a route with @UseWebhook at ${path}, which the module's own route serves as well: which of the two gets a request depends ` +
          `on the order of modules. Give it another path, or the module's own: controller: { path }, or false for none`,
      ),
    );
  }
}

function oneSource(source: string, text: string): LogLine {
  return logLine(`source '${source}' ${text}`, { source });
}

function listed(items: readonly string[], max: number): string {
  const more = items.length - max;
  return items.slice(0, max).join(', ') + (more > 0 ? ` and ${more} more` : '');
}
