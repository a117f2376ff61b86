import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ConfigurationError } from '../core/errors.js';
import { ByteBudget } from './byte-budget.js';
import { DirectRoute } from './direct.route.js';
import { BODY_PARSERS, HostPipeline, READER } from './host.pipeline.js';
import { rawBodyOf, readRawBody } from './raw-body.js';
import { WebhookRoutes } from './webhook.routes.js';

type Next = (error?: unknown) => void;

/** What this needs of Express: `use` puts the reader in front of the body parsers, which Nest installs later. */
interface ExpressLike {
  /** `slash`: whether the layer is for every path. */
  readonly router?: { readonly stack?: readonly { readonly name?: string; readonly slash?: boolean }[] };
}
/** What this needs of Fastify. */
interface FastifyLike {
  addHook(
    name: string,
    hook: (request: FastifyRequestLike, reply: FastifyReplyLike, payload: unknown) => unknown,
  ): unknown;
}
interface FastifyRequestLike {
  readonly raw: IncomingMessage;
  readonly routeOptions: { readonly url?: string };
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
export class RawBodyInstaller {
  constructor(
    private readonly adapterHost: HttpAdapterHost,
    private readonly routes: WebhookRoutes,
    private readonly budget: ByteBudget,
    private readonly pipeline: HostPipeline,
    private readonly direct: DirectRoute,
  ) {
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
      `The body parser '${stack[parser]!.name}' was installed on the Express server before this module, so that the exact bytes of ` +
        `webhooks cannot be had. Install it with app.use() after NestFactory.create(), or on its own paths.`,
    );
  }

  /**
   * Serves the module's own route before Express is asked, whose way to its first layer costs as much as the check of a signature. For
   * an application that is served by Nest's HTTP server, once that is there.
   */
  installDirect(): void {
    const adapter = this.adapterHost.httpAdapter as HttpAdapterHost['httpAdapter'] | undefined;
    if (adapter?.getType?.() !== 'express') return;
    const server = adapter.getHttpServer() as Server;
    const [express, ...others] = server.listeners('request');
    // What others listen for is theirs: then the reader serves the route, when Express comes to it.
    if (express === undefined || express !== adapter.getInstance() || others.length > 0) return;
    server.removeAllListeners('request');
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      const url = request.url ?? '';
      const found = this.routes.find(request.method ?? '', url);
      if (found?.own === undefined || !this.pipeline.isEmpty(found.own)) {
        express.call(server, request, response);
        return;
      }
      const { source } = found;
      readRawBody(request, response, source, this.budget)
        .then((read) => (read ? this.direct.serve(request, response, source, url) : undefined))
        // Nothing of it is known to be claimed: the provider comes again.
        .catch(() => response.destroy());
    });
  }

  private install(): void {
    const httpAdapter = this.adapterHost.httpAdapter as HttpAdapterHost['httpAdapter'] | null;
    // An application context (a worker, a cron) tells that its adapter is ready, too, and has none.
    if (httpAdapter === null) return;
    if (httpAdapter.getType() === 'fastify') this.installOnFastify(httpAdapter.getInstance<FastifyLike>());
    else this.installOnExpress();
  }

  private installOnExpress(): void {
    const read = (request: IncomingMessage, response: ServerResponse, next: Next) =>
      this.read(request, response, next);
    // The name by which checkOrder finds it.
    Object.defineProperty(read, 'name', { value: READER });
    this.adapterHost.httpAdapter.use(read);
  }

  private read(
    request: IncomingMessage & { originalUrl?: string },
    response: ServerResponse,
    next: Next,
  ): void {
    const url = request.originalUrl ?? request.url ?? '';
    const found = this.routes.find(request.method ?? '', url);
    if (found === undefined || request.readableEnded) return next();
    const { source, own } = found;
    readRawBody(request, response, source, this.budget).then((read) => {
      if (!read) return;
      if (own !== undefined && this.pipeline.isEmpty(own)) {
        this.direct.serve(request, response, source, url).catch(next);
        return;
      }
      // A refused body is not read to its end. A parser would start on the rest of it and answer in the guard's place.
      if (!('bytes' in rawBodyOf(request)!)) hideBody(request);
      next();
    }, next);
  }

  /**
   * Fastify reads the body itself. Once we have it, the request is shown to Fastify as one without a body, so that no parser and
   * no content type check stands in the way; the headers are put back before anything of the application sees them.
   */
  private installOnFastify(fastify: FastifyLike): void {
    const hidden = new WeakMap<IncomingMessage, IncomingMessage['headers']>();
    fastify.addHook('preParsing', async (request, reply, payload) => {
      const { raw } = request;
      const found = this.routes.find(raw.method ?? '', raw.url ?? '');
      if (found === undefined) return payload;
      const { source, own } = found;
      if (!(await readRawBody(raw, reply.raw, source, this.budget))) return new Promise(() => undefined);
      if (own !== undefined && own === request.routeOptions.url && this.pipeline.isEmpty(own, request)) {
        // What hooks before this one have set, CORS for one.
        for (const [name, value] of Object.entries(reply.getHeaders())) reply.raw.setHeader(name, value);
        reply.hijack();
        await this.direct.serve(raw, reply.raw, source, raw.url ?? '');
        return payload;
      }
      hidden.set(raw, { ...raw.headers });
      hideBody(raw);
      return payload;
    });
    fastify.addHook('preValidation', async ({ raw }) => {
      Object.assign(raw.headers, hidden.get(raw));
    });
  }
}

/** Makes the request one without a body to whoever looks at its headers from here on. */
function hideBody(request: IncomingMessage): void {
  for (const name of ['content-type', 'content-length', 'transfer-encoding']) delete request.headers[name];
}
