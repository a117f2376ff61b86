import { ServerResponse, type IncomingMessage } from 'node:http';

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
const WRITES = ['setHeader', 'removeHeader', 'writeHead', 'write', 'end'] as const;
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
  private seen: readonly (readonly [Layer, unknown, number])[] = [];
  private isSound = false;
  private isFresh = false;
  private handle: unknown;

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
    if (Object.hasOwn(adapter, 'registerParserMiddleware')) return;
    adapter.registerParserMiddleware = (...given) => {
      // Nest's own method is the prototype's.
      delete adapter.registerParserMiddleware;
      this.addIdle(() => adapter.use(reader));
      return this.addIdle(() => adapter.registerParserMiddleware?.(...given));
    };
  }

  /** @param route as the adapter has it; `path` as it was asked for */
  isClear(route: string, path: string): boolean {
    const { adapter } = this;
    if (adapter.onRequestHook !== undefined || adapter.onResponseHook !== undefined) return false;
    if (Object.keys(this.app.router?.params ?? {}).length > 0) return false;
    if (!this.isAsSeen()) this.readStack();
    if (!this.isSound) return false;
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
          stack[at] === layer && layer.handle === handle && handlersOf(layer).length === handlers,
      )
    );
  }

  private readStack(): void {
    this.seen = this.stack.map((layer) => [layer, layer.handle, handlersOf(layer).length] as const);
    this.clear.clear();
    this.isSound = this.isFresh && this.isUnchanged();
  }

  /** Express lets an application replace its entry, its router's, and the methods of requests and responses. */
  private isUnchanged(): boolean {
    const { handle, router, request = {}, response = {} } = this.app;
    if (handle === undefined || handle !== this.handle || handle.name !== 'handle') return false;
    if (router === undefined || Object.hasOwn(router, 'handle')) return false;
    const writes = response as Pick<ServerResponse, (typeof WRITES)[number]>;
    return (
      Object.getOwnPropertyNames(request).every((name) => name === 'app') &&
      WRITES.every((name) => writes[name] === ServerResponse.prototype[name])
    );
  }

  private leadsTo(route: string, path: string): boolean {
    const { stack } = this;
    const at = stack.findLastIndex((layer) => layer.route?.path === route);
    const own = stack[at];
    return (
      own !== undefined &&
      // One for each method, and nothing before it.
      new Set(handlersOf(own).map(({ handle }) => handle)).size === 1 &&
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

function handlersOf({ route }: Layer): readonly { readonly handle: unknown }[] {
  return route?.stack ?? NONE;
}

/** Whether a request for this path comes to a layer, as the layer itself has it. */
function meets(layer: Layer, path: string): boolean {
  try {
    return layer.match === undefined || layer.match(path) !== false;
  } catch {
    return true;
  }
}
