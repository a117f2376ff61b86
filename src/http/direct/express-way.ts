import { ServerResponse, type IncomingMessage } from 'node:http';
import { AbstractHttpAdapter } from '@nestjs/core';

/** A layer of Express's stack: a middleware, or a route. */
interface Layer {
  readonly name?: string;
  readonly handle: unknown;
  readonly route?: {
    readonly path: unknown;
    readonly methods?: Readonly<Record<string, boolean>>;
    readonly stack?: readonly { readonly handle: unknown }[];
  };
  match?(path: string): unknown;
}
export interface ExpressRouter {
  readonly stack: readonly Layer[];
  /** Callbacks of `app.param`. */
  readonly params?: object;
}
export interface ExpressApp {
  readonly router?: ExpressRouter;
  readonly request?: object;
  readonly response?: object;
  readonly handle?: { readonly name: string };
  enabled?(setting: string): boolean;
}
/** The part of Nest's adapter that this file uses. */
export interface ExpressAdapterLike {
  readonly onRequestHook?: unknown;
  readonly onResponseHook?: unknown;
  registerParserMiddleware?(...given: unknown[]): unknown;
  use(...given: unknown[]): unknown;
  getInstance(): unknown;
}

/** Name of the layer that reads the bytes. */
export const READER = 'webhookRawBodyReader';
const NEST_PARSERS: ReadonlySet<string> = new Set(['jsonParser', 'urlencodedParser']);
/** Of Node's response, by which a direct answer is written. */
const WRITES = ['setHeader', 'removeHeader', 'writeHead', 'write', 'end', 'statusCode', 'headersSent'];
const MAX_KNOWN = 1_000;
/** A parameter of the application's prefix is as long as its sender likes. */
const MAX_KNOWN_LENGTH = 200;

/**
 * The layers of Express between a request and its route. A layer is skipped only if it is known to do nothing to a webhook: the adapter's
 * own, this module's reader, and the parsers that Nest installs itself. A name proves nothing.
 */
export class ExpressWay {
  private readonly idle = new Set<Layer>();
  private readonly clear = new Map<string, boolean>();
  private seen: readonly (readonly [Layer, unknown, readonly unknown[]])[] = [];
  private isFresh = false;
  private handle: unknown;
  /** Of Nest's routes, by path. */
  private readonly ownHandles = new Map<string, unknown>();

  constructor(private readonly adapter: ExpressAdapterLike) {}

  /**
   * Puts the reader in front of everything, and once more in front of Nest's parsers: a middleware of the application may have
   * rewritten the URL in between.
   */
  install(reader: object): void {
    const { adapter } = this;
    this.handle = this.app.handle;
    // The one layer is the adapter's own. Layers that the application has put there before it are known to Express alone.
    this.isFresh = this.stack.length === 1;
    if (this.isFresh) this.idle.add(this.stack[0]!);
    this.addIdle(() => adapter.use(reader));
    if (!isNests(adapter, 'registerParserMiddleware')) return;
    adapter.registerParserMiddleware = (...given) => {
      // Nest's own method is the prototype's.
      delete adapter.registerParserMiddleware;
      this.addIdle(() => adapter.use(reader));
      return this.addIdle(() => adapter.registerParserMiddleware?.(...given));
    };
  }

  /** Remembers how Nest serves a route, once it has registered it. The application may put another function there. */
  remember(route: string): void {
    const [first] = handlersOf(this.stack.findLast((layer) => layer.route?.path === route));
    this.ownHandles.set(route, first?.handle);
  }

  /** @param route as the adapter has it; `path` as it was asked for */
  isClear(route: string, path: string): boolean {
    const { adapter } = this;
    if (adapter.onRequestHook !== undefined || adapter.onResponseHook !== undefined) return false;
    if (Object.keys(this.app.router?.params ?? {}).length > 0) return false;
    if (!this.isFresh || !this.isUnchanged()) return false;
    if (!this.isAsSeen()) this.readStack();
    let known = this.clear.get(path);
    if (known === undefined) {
      if (this.clear.size >= MAX_KNOWN) this.clear.clear();
      known = this.leadsTo(route, path);
      if (path.length <= MAX_KNOWN_LENGTH) this.clear.set(path, known);
    }
    return known;
  }

  /** Names of layers that a request meets before the route and that may do something to it. */
  obstacles(route: string, path: string): string[] {
    const { stack } = this;
    const at = stack.findLastIndex((layer) => layer.route?.path === route);
    return stack
      .slice(0, Math.max(at, 0))
      .filter((layer) => !this.idle.has(layer) && meets(layer, path))
      .map((layer) => `the middleware ${layer.name || 'without a name'}`);
  }

  /** The header that Express sets before its first layer. */
  get poweredBy(): string | undefined {
    return this.app.enabled?.('x-powered-by') === true ? 'Express' : undefined;
  }

  /** A request as Express would show it, for one that Express has not seen yet: its `ip` follows `trust proxy`. */
  asSeen(request: IncomingMessage): { readonly ip?: string } {
    return Object.create(this.app.request ?? null, {
      headers: { value: request.headers },
      socket: { value: request.socket },
    }) as object;
  }

  private get app(): ExpressApp {
    return this.adapter.getInstance() as ExpressApp;
  }

  private get stack(): readonly Layer[] {
    return this.app.router?.stack ?? [];
  }

  /** Layers that `install` adds are idle for a webhook, where their names say that Nest or this module has made them. */
  private addIdle<T>(install: () => T): T {
    const before = this.stack.length;
    const result = install();
    for (const layer of this.stack.slice(before)) {
      if (layer.name === READER || NEST_PARSERS.has(layer.name ?? '')) this.idle.add(layer);
    }
    return result;
  }

  /** An application may change its stack at any time. */
  private isAsSeen(): boolean {
    const { seen, stack } = this;
    return (
      stack.length === seen.length &&
      seen.every(
        ([layer, handle, handlers], at) =>
          stack[at] === layer && layer.handle === handle && areHandlers(handlersOf(layer), handlers),
      )
    );
  }

  private readStack(): void {
    this.seen = this.stack.map((layer) => {
      const handlers = handlersOf(layer).map(({ handle }) => handle);
      return [layer, layer.handle, handlers] as const;
    });
    this.clear.clear();
  }

  /** Express lets an application replace its entry, its router's, and the methods of requests and responses. */
  private isUnchanged(): boolean {
    const { handle, router, request = {}, response = {} } = this.app;
    if (handle === undefined || handle !== this.handle || handle.name !== 'handle') return false;
    if (router === undefined || Object.hasOwn(router, 'handle')) return false;
    return (
      Object.getOwnPropertyNames(request).every((name) => name === 'app') &&
      WRITES.every((name) => isNodes(response, name))
    );
  }

  private leadsTo(route: string, path: string): boolean {
    const { stack } = this;
    const at = stack.findLastIndex((layer) => layer.route?.path === route);
    const own = stack[at];
    return (
      own !== undefined &&
      // One for each method, and nothing before it.
      handlersOf(own).length > 0 &&
      handlersOf(own).every(({ handle }) => handle === this.ownHandles.get(route)) &&
      meets(own, path) &&
      !stack.slice(0, at).some((layer) => !this.idle.has(layer) && meets(layer, path))
    );
  }
}

/** Whether Express has a route without parameters for a path: it takes the first route that fits, and Fastify the most exact one. */
export function hasExactRoute({ router }: ExpressApp, method: string, path: string): boolean {
  return (router?.stack ?? []).some((layer) => {
    const { path: routed, methods = {} } = layer.route ?? {};
    if (typeof routed !== 'string' || /[:*{(]/.test(routed)) return false;
    return (methods['_all'] ?? methods[method.toLowerCase()]) === true && meets(layer, path);
  });
}

const NONE: readonly { readonly handle: unknown }[] = [];

function handlersOf(layer: Layer | undefined): readonly { readonly handle: unknown }[] {
  return layer?.route?.stack ?? NONE;
}

function areHandlers(found: readonly { readonly handle: unknown }[], seen: readonly unknown[]): boolean {
  return found.length === seen.length && found.every(({ handle }, at) => handle === seen[at]);
}

/** Whether a method of an adapter is that of Nest's own class: an application may have a subclass. */
function isNests(adapter: object, method: string): boolean {
  const owner = ownerOf(adapter, method);
  return owner !== adapter && Object.getPrototypeOf(owner ?? {}) === AbstractHttpAdapter.prototype;
}

/** Whether a property of a response is Node's own, and neither Express's nor the application's. */
function isNodes(response: object, name: string): boolean {
  return ownerOf(response, name) === ownerOf(ServerResponse.prototype, name);
}

/** The object in whose chain of prototypes a property is found first. */
function ownerOf(object: object, name: string): object | undefined {
  for (let at: object | null = object; at !== null; at = Object.getPrototypeOf(at) as object | null)
    if (Object.hasOwn(at, name)) return at;
  return undefined;
}

/** Whether a request for this path comes to a layer, as the layer itself has it. */
function meets(layer: Layer, path: string): boolean {
  try {
    return layer.match === undefined || layer.match(path) !== false;
  } catch {
    return true;
  }
}
