import { Inject, Injectable, RequestMethod, type Type } from '@nestjs/common';
import {
  ApplicationConfig,
  DiscoveryService,
  HttpAdapterHost,
  MetadataScanner,
  ModulesContainer,
} from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { RoutePathFactory } from '@nestjs/core/router/route-path-factory.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { targetOf } from '../core/request.js';
import { WEBHOOKS_CONTROLLER } from './controller.metadata.js';
import { nodeRequest, type AdapterRequest } from './delivery-state.js';
import { hasExactRoute, type ExpressApp } from './direct/express-way.js';
import { pathMatcher, pathRules, type PathMatcher } from './path-rules.js';
import { useWebhookOf } from './use-webhook.metadata.js';

/** The source and the route of a request. */
export interface FoundRoute {
  readonly source: Source;
  /** Set where it came to the module's own route, and not to one with `@UseWebhook`. */
  readonly own: OwnPath | undefined;
}

export interface OwnPath {
  /** As the adapter has it: `/webhooks/:source`. */
  readonly route: string;
  /** As it was asked for: `/webhooks/github`. */
  readonly path: string;
}

const MAX_KNOWN = 1_000;
const MAX_KNOWN_LENGTH = 200;

interface WebhookRoute {
  readonly method: RequestMethod;
  readonly path: string;
  readonly matches: PathMatcher;
  /** Undefined for the module's own route, where the path names it. */
  readonly source: string | undefined;
}

/**
 * Which requests are webhooks, so that their bytes are taken before the application's parsers. Global prefix, versions and module
 * paths are set after the module's constructors ran: the table is made at the first request.
 */
@Injectable()
export class WebhookRoutes {
  private routes: WebhookRoute[] | undefined;
  /** Results for the URLs that providers send to. There are few, and always the same. */
  private readonly known = new Map<string, FoundRoute>();

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly modules: ModulesContainer,
    private readonly config: ApplicationConfig,
    private readonly adapterHost: HttpAdapterHost,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** The route that serves this request; undefined when the path is not ours, or its source is not configured. */
  find(method: string, url: string): FoundRoute | undefined {
    const known = this.known.get(`${method} ${url}`);
    if (known !== undefined) return known;
    const found = this.search(method, url);
    // Those of one source can be spelled in many ways.
    if (this.known.size >= MAX_KNOWN) this.known.clear();
    if (found !== undefined && url.length <= MAX_KNOWN_LENGTH) this.known.set(`${method} ${url}`, found);
    return found;
  }

  /** The route that the adapter's router has chosen: Fastify says which, Express leaves the path for us to compare. */
  chosen(request: AdapterRequest): FoundRoute | undefined {
    const method = nodeRequest(request).method ?? '';
    const chosen = this.table().filter(({ path }) => path === request.routeOptions?.url);
    if (chosen.length === 0) {
      const found = this.find(method, request.url);
      // Fastify prefers a route of the application's that is more exact.
      return found?.own !== undefined && request.routeOptions?.url !== undefined ? undefined : found;
    }
    const path = targetOf(request.url)?.path ?? '';
    for (const route of chosen) {
      if (!takes(route, method) || !isSpelled(route, path)) continue;
      const found = this.found(route, path, route.source ?? request.params?.['source']);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  /** Whether the module's own route has exactly that path. Routers accept other spellings too. */
  isOwn({ url, routeOptions }: AdapterRequest): boolean {
    const path = targetOf(url)?.path;
    if (path === undefined) return false;
    return this.table().some(
      (route) =>
        route.source === undefined &&
        (route.path === routeOptions?.url ? isSpelled(route, path) : route.matches(path) !== false),
    );
  }

  /** Whether the adapter's router has chosen the module's own route. Fastify says which. */
  hasChosenOwn({ routeOptions }: AdapterRequest): boolean {
    return this.table().some(({ source, path }) => source === undefined && path === routeOptions?.url);
  }

  /** Whether the application has a route of its own at exactly this path: `webhooks/payments`, beside a module's route for all sources. */
  isApplications(request: AdapterRequest): boolean {
    const adapter = this.adapterHost.httpAdapter;
    const path = targetOf(request.url)?.path;
    if (path === undefined || adapter.getType() !== 'express') return false;
    return hasExactRoute(adapter.getInstance<ExpressApp>(), nodeRequest(request).method ?? '', path);
  }

  /** The source's name in a target of the module's own route. */
  sourceNameIn(url: string): string | undefined {
    const path = targetOf(url)?.path;
    for (const { source, matches } of path === undefined ? [] : this.table()) {
      const match = source === undefined && matches(path!);
      if (match !== false && typeof match.params['source'] === 'string') return match.params['source'];
    }
    return undefined;
  }

  private search(method: string, url: string): FoundRoute | undefined {
    const path = targetOf(url)?.path;
    if (path === undefined) return undefined;
    for (const route of this.table()) {
      const match = takes(route, method) && route.matches(path);
      if (match === false) continue;
      const found = this.found(route, path, route.source ?? match.params['source']);
      if (found !== undefined) return found;
    }
    return undefined;
  }

  private found(route: WebhookRoute, path: string, name: unknown): FoundRoute | undefined {
    const source = typeof name === 'string' ? this.options.sources.get(name) : undefined;
    if (source === undefined) return undefined;
    return { source, own: route.source === undefined ? { route: route.path, path } : undefined };
  }

  /** Where a source's deliveries may be sent, prefix and versions included; on the module's own route and on routes with `@UseWebhook`. */
  paths(source: string): { readonly own: readonly string[]; readonly routes: readonly string[] } {
    const own = this.table().filter((route) => route.source === undefined);
    const routes = this.table().filter((route) => route.source === source);
    return {
      own: own.map(({ path }) => path.replace(':source', source)),
      routes: routes.map(({ path }) => path),
    };
  }

  /** The module's own route, with a path of some source. */
  ownPaths(): OwnPath[] {
    const [source = 'source'] = this.options.sources.keys();
    return this.table()
      .filter((route) => route.source === undefined)
      .map(({ path: route }) => ({ route, path: route.replace(':source', source) }));
  }

  private table(): readonly WebhookRoute[] {
    return (this.routes ??= this.resolve());
  }

  private resolve(): WebhookRoute[] {
    const rules = pathRules(
      this.adapterHost.httpAdapter as HttpAdapterHost['httpAdapter'] | null | undefined,
    );
    return this.discovery.getControllers().flatMap((wrapper) => {
      const controller = wrapper.metatype as Type | null;
      if (typeof controller !== 'function') return [];
      const prototype = controller.prototype as Record<string, object>;
      return this.scanner.getAllMethodNames(prototype).flatMap((name) => {
        const code = prototype[name]!;
        const source = useWebhookOf(code)?.source;
        if (source === undefined && !Reflect.hasMetadata(WEBHOOKS_CONTROLLER, controller)) return [];
        const method = (Reflect.getMetadata('method', code) ?? RequestMethod.ALL) as RequestMethod;
        return this.pathsOf(wrapper, controller, code, method).map((path) => ({
          method,
          path,
          source,
          matches: pathMatcher(path, source === undefined ? rules.own : rules.router),
        }));
      });
    });
  }

  private pathsOf(wrapper: InstanceWrapper, controller: Type, code: object, method: RequestMethod): string[] {
    const metadata = (key: string, target: object) => Reflect.getMetadata(key, target) as never;
    const host = wrapper.host?.metatype as object | undefined;
    const modulePath =
      host &&
      (metadata(`__module_path__${this.modules.applicationId}`, host) ?? metadata('__module_path__', host));
    const controllerPaths = [metadata('path', controller)].flat() as string[];
    const methodPaths = [metadata('path', code)].flat() as string[];
    const factory = new RoutePathFactory(this.config);
    return controllerPaths.flatMap((ctrlPath) =>
      methodPaths.flatMap((methodPath) =>
        factory.create(
          {
            ctrlPath,
            methodPath,
            modulePath,
            globalPrefix: withLeadingSlash(this.config.getGlobalPrefix()),
            controllerVersion:
              metadata('__version__', controller) ?? this.config.getVersioning()?.defaultVersion,
            methodVersion: metadata('__version__', code),
            versioningOptions: this.config.getVersioning(),
          },
          method,
        ),
      ),
    );
  }
}

function withLeadingSlash(prefix: string): string {
  return prefix === '' || prefix.startsWith('/') ? prefix : `/${prefix}`;
}

/** The application may serve other methods of the same path itself, and then their bodies are its own. */
function takes(route: WebhookRoute, method: string): boolean {
  return route.method === RequestMethod.ALL || RequestMethod[route.method] === method;
}

/** Fastify also takes `/%77ebhooks` for `/webhooks`, which Express does not. */
function isSpelled(route: WebhookRoute, path: string): boolean {
  return !path.includes('%') || route.matches(path) !== false;
}
