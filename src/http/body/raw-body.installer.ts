import { METHODS, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ConfigurationError } from '../../core/errors.js';
import { nameRoute } from '../../core/telemetry/tracing.js';
import { methodsOf } from '../../inbox/delivery.verifier.js';
import { rawBodyOf } from './arrival.js';
import { BodyIntake, type Sender } from './body-intake.js';
import type { AdapterRequest } from '../delivery-state.js';
import { DirectRoute } from '../direct/direct.route.js';
import { ExpressWay, READER } from '../direct/express-way.js';
import { HostAnswers } from '../direct/host-answers.js';
import { HostPipeline } from '../direct/host-pipeline.js';
import { LongPaths, type RouteAdding } from '../direct/long-paths.js';
import { hideBody, NO_BODY, showEmpty, showNoBody } from './hidden-body.js';
import { WebhookRoutes, type FoundRoute, type OwnPath } from '../webhook.routes.js';

type Next = (error?: unknown) => void;

/** Names of the body parsers that Nest and Express install. */
const BODY_PARSERS: ReadonlySet<string> = new Set([
  'jsonParser',
  'urlencodedParser',
  'textParser',
  'rawParser',
  'multerMiddleware',
]);

/** The part of Express that this file uses. */
interface ExpressLike {
  /** `slash`: whether the layer is for every path. */
  readonly router?: { readonly stack?: readonly { readonly name?: string; readonly slash?: boolean }[] };
}
/** The part of Fastify that this file uses. */
interface FastifyLike {
  readonly supportedMethods: readonly string[];
  addHttpMethod(method: string, options: { hasBody: boolean }): unknown;
  addHook(
    name: 'preParsing' | 'preValidation',
    hook: (request: FastifyRequestLike, reply: FastifyReplyLike, payload: unknown) => unknown,
  ): unknown;
  hasContentTypeParser(type: string): boolean;
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: null) => void) => void,
  ): unknown;
}
interface FastifyRequestLike extends AdapterRequest, Sender {
  readonly raw: IncomingMessage;
  readonly is404: boolean;
}
interface FastifyReplyLike {
  readonly raw: ServerResponse;
  getHeaders(): Record<string, string | number | readonly string[]>;
  hijack(): void;
}

/**
 * Puts the raw body reader in front of every parser. In the constructor, since that runs before Nest installs its own parsers;
 * which URLs are ours is asked at each request.
 */
@Injectable()
export class RawBodyInstaller implements OnApplicationBootstrap {
  private way: ExpressWay | undefined;
  private readonly longPaths: LongPaths;

  constructor(
    private readonly adapterHost: HttpAdapterHost,
    private readonly routes: WebhookRoutes,
    private readonly intake: BodyIntake,
    private readonly pipeline: HostPipeline,
    private readonly direct: DirectRoute,
    private readonly answers: HostAnswers,
  ) {
    this.longPaths = new LongPaths(routes, (response) => direct.refuseUnknown(response));
    // At once, or when a testing module gets its adapter.
    adapterHost.init$.subscribe(() => this.install());
  }

  /** @throws ConfigurationError when a body parser stands in front of the reader */
  checkOrder(): void {
    const adapter = this.adapterHost.httpAdapter as HttpAdapterHost['httpAdapter'] | undefined;
    if (adapter?.getType?.() !== 'express') return;
    const stack = adapter.getInstance<ExpressLike>().router?.stack ?? [];
    const reader = stack.findIndex((layer) => layer.name === READER);
    const parser = stack.findIndex((layer) => layer.slash !== false && BODY_PARSERS.has(layer.name ?? ''));
    if (parser === -1 || reader === -1 || reader < parser) return;
    throw new ConfigurationError(
      `The body parser '${stack[parser]!.name}' was installed on the Express server before this module, so the exact bytes of ` +
        `webhooks are lost. Install it with app.use() after NestFactory.create(), or on its own paths.`,
    );
  }

  /**
   * Serves the module's own route before Express is asked, whose way to its first layer costs as much as the check of a signature. For
   * an application that is served by Nest's HTTP server, once that is there.
   */
  installDirect(): void {
    const adapter = this.adapterHost.httpAdapter as HttpAdapterHost['httpAdapter'] | undefined;
    const server = adapter?.getHttpServer?.() as Server | undefined;
    if (adapter === undefined || server === undefined) return;
    if (adapter.getType() === 'fastify') return this.longPaths.install(server);
    const { way } = this;
    if (way === undefined) return;
    const [express, ...others] = server.listeners('request');
    // Other listeners of the server must see the request too. Then the reader serves the route when Express comes to it.
    if (express === undefined || express !== adapter.getInstance() || others.length > 0) return;
    server.removeAllListeners('request');
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const url = request.url ?? '';
      const { source, own } = this.routes.find(request.method ?? '', url) ?? {};
      if (source === undefined || !this.isDirectOnExpress(own, way)) {
        express.call(server, request, response);
        return;
      }
      nameRoute(own?.route);
      const { poweredBy } = way;
      if (poweredBy !== undefined) response.setHeader('X-Powered-By', poweredBy);
      this.intake
        .read(request, response, source, way.asSeen(request))
        .then((read) => (read ? this.direct.serve(request, response, source, url) : undefined))
        // Nothing of it is known to be claimed: the provider comes again.
        .catch(() => response.destroy());
    });
  }

  /** Nest has registered its routes by now. */
  onApplicationBootstrap(): void {
    const { way } = this;
    if (way !== undefined) for (const { route } of this.routes.ownPaths()) way.remember(route);
  }

  /** Names of the parts of the application that make webhooks take its pipeline. */
  obstacles(): string[] {
    const [own] = this.routes.ownPaths();
    if (own === undefined) return [];
    return [...this.pipeline.obstacles(), ...(this.way?.obstacles(own.route, own.path) ?? [])];
  }

  private isDirectOnExpress(own: OwnPath | undefined, way: ExpressWay): boolean {
    return own !== undefined && this.pipeline.isEmptyOnExpress(own, way);
  }

  private install(): void {
    const httpAdapter = this.adapterHost.httpAdapter as HttpAdapterHost['httpAdapter'] | null;
    // An application context (a worker, a cron) calls this too, and has no adapter.
    if (httpAdapter === null) return;
    if (httpAdapter.getType() !== 'fastify') return this.installOnExpress();
    this.longPaths.watch(httpAdapter.getInstance<RouteAdding>());
    this.installOnFastify(httpAdapter.getInstance<FastifyLike>());
  }

  private installOnExpress(): void {
    const way = (this.way = new ExpressWay(this.adapterHost.httpAdapter));
    const read = (request: IncomingMessage, response: ServerResponse, next: Next) =>
      this.read(request, response, way, next);
    // The name by which checkOrder finds it.
    Object.defineProperty(read, 'name', { value: READER });
    way.install(read);
  }

  /** By the URL that Express has here: below a path of another application it is without that path. */
  private read(
    request: IncomingMessage & { originalUrl?: string },
    response: ServerResponse,
    way: ExpressWay,
    next: Next,
  ): void {
    const found = this.routes.find(request.method ?? '', request.url ?? '');
    if (found === undefined || request.readableEnded || rawBodyOf(request) !== undefined) return next();
    const { source, own } = found;
    this.intake.read(request, response, source, way.asSeen(request)).then((read) => {
      if (!read) return;
      if (this.isDirectOnExpress(own, way)) {
        nameRoute(own?.route);
        this.direct.serve(request, response, source, request.originalUrl ?? request.url ?? '').catch(next);
        return;
      }
      this.answers.watch(response, found);
      showNoBody(request);
      next();
    }, next);
  }

  /**
   * Fastify reads the body itself. Once we have it, the request is shown to Fastify as one without a body, so that no parser and no content
   * type check runs. The headers are put back before the application sees them.
   */
  private installOnFastify(fastify: FastifyLike): void {
    acceptMethods(fastify);
    const hidden = new WeakMap<IncomingMessage, IncomingMessage['headers']>();
    fastify.addHook('preParsing', async (request, reply, payload) => {
      const { raw } = request;
      const found = this.routes.chosen(request);
      const hide = () => {
        hidden.set(raw, { ...raw.headers });
        hideBody(raw);
        return payload;
      };
      if (found === undefined) {
        // Of an unknown source: no parser and no check of its type comes before the guard's answer.
        return !request.is404 && this.routes.hasChosenOwn(request) ? hide() : payload;
      }
      const { source, own } = found;
      if (request.is404) return this.refuseMethod(request, reply, found, payload);
      // Code before this hook has read it. The guard says so.
      if (raw.readableEnded && rawBodyOf(raw) === undefined) {
        showEmpty(raw);
        return hide();
      }
      if (!(await this.intake.read(raw, reply.raw, source, request))) return new Promise(() => undefined);
      if (own !== undefined && this.pipeline.isEmptyOnFastify(request, reply)) {
        // Headers that earlier hooks have set, for example CORS.
        for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value);
        reply.hijack();
        nameRoute(own.route);
        await this.direct.serve(raw, reply.raw, source, request.originalUrl ?? request.url);
        return payload;
      }
      this.answers.watch(reply.raw, found);
      showEmpty(raw);
      return hide();
    });
    fastify.addHook('preValidation', async ({ raw }) => {
      const headers = hidden.get(raw);
      if (headers === undefined) return;
      for (const name of ['content-type', 'content-length']) delete raw.headers[name];
      Object.assign(raw.headers, headers);
    });
    // A module that is imported twice comes here twice, before its own error says so.
    if (!fastify.hasContentTypeParser(NO_BODY))
      fastify.addContentTypeParser(NO_BODY, (_request, _payload, done) => done(null));
  }

  /** Fastify has no route for methods that it does not know, where Express has one for all. */
  private async refuseMethod(
    { raw, url }: FastifyRequestLike,
    reply: FastifyReplyLike,
    { source, own }: FoundRoute,
    payload: unknown,
  ): Promise<unknown> {
    if (own === undefined || methodsOf(source).includes(raw.method ?? '')) return payload;
    reply.hijack();
    await this.direct.serve(raw, reply.raw, source, url);
    return payload;
  }
}

/** Nest 11 routes `@All()` for the methods that Fastify knows: PROPFIND, for one, would be answered 404 and not 405. */
function acceptMethods(fastify: FastifyLike): void {
  for (const method of METHODS.filter((name) => name !== 'CONNECT'))
    if (!fastify.supportedMethods.includes(method)) fastify.addHttpMethod(method, { hasBody: true });
}
