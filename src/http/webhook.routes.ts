import { Inject, Injectable, RequestMethod, type Type } from '@nestjs/common';
import { ApplicationConfig, DiscoveryService, MetadataScanner, ModulesContainer } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { RoutePathFactory } from '@nestjs/core/router/route-path-factory.js';
import { match, type MatchFunction } from 'path-to-regexp';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { Source } from '../core/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { WEBHOOKS_CONTROLLER } from './controller.metadata.js';
import { useWebhookOf } from './use-webhook.metadata.js';

/** What a request is for. */
export interface FoundRoute {
  readonly source: Source;
  /** Path of the module's own route, if that is where it came to, and not to one with `@UseWebhook`. */
  readonly own: string | undefined;
}

const MAX_KNOWN = 1_000;
const MAX_KNOWN_LENGTH = 200;

interface WebhookRoute {
  readonly method: RequestMethod;
  readonly path: string;
  readonly matches: MatchFunction<Partial<Record<string, string | string[]>>>;
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
  /** What was found for the URLs that providers send to: few, and the same all the time. */
  private readonly known = new Map<string, FoundRoute>();

  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
    private readonly modules: ModulesContainer,
    private readonly config: ApplicationConfig,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** The route that serves this request; undefined when it is none of ours, or its source is not configured. */
  find(method: string, url: string): FoundRoute | undefined {
    const known = this.known.get(`${method} ${url}`);
    if (known !== undefined) return known;
    const found = this.look(method, url);
    // Those of one source can be spelled in many ways.
    if (this.known.size >= MAX_KNOWN) this.known.clear();
    if (found !== undefined && url.length <= MAX_KNOWN_LENGTH) this.known.set(`${method} ${url}`, found);
    return found;
  }

  private look(method: string, url: string): FoundRoute | undefined {
    const path = url.split('?', 1)[0]!;
    for (const route of this.table()) {
      // The application may serve other methods of the same path itself, and then their bodies are its own.
      if (route.method !== RequestMethod.ALL && RequestMethod[route.method] !== method) continue;
      const found = route.matches(path);
      if (found === false) continue;
      const name = route.source ?? found.params['source'];
      const source = typeof name === 'string' ? this.options.sources.get(name) : undefined;
      if (source !== undefined) return { source, own: route.source === undefined ? route.path : undefined };
    }
    return undefined;
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

  private table(): readonly WebhookRoute[] {
    return (this.routes ??= this.resolve());
  }

  private resolve(): WebhookRoute[] {
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
          matches: matcher(path),
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

function matcher(path: string): WebhookRoute['matches'] {
  return match(path, { sensitive: false, trailing: true, decode });
}

/** As decodeURIComponent, which throws for '%ZZ': such a path names no source, and the adapter answers it. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
