import type { IncomingMessage, ServerResponse } from 'node:http';
import { Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ConfigurationError } from '../core/errors.js';
import { ByteBudget } from './byte-budget.js';
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
    name: 'preParsing' | 'preValidation',
    hook: (request: FastifyRequestLike, ...rest: unknown[]) => unknown,
  ): void;
}
interface FastifyRequestLike {
  readonly raw: IncomingMessage;
}

const BODY_PARSERS = new Set([
  'jsonParser',
  'urlencodedParser',
  'textParser',
  'rawParser',
  'multerMiddleware',
]);

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
    const source = this.routes.source(request.method ?? '', request.originalUrl ?? request.url ?? '');
    if (source === undefined || request.readableEnded) return next();
    readRawBody(request, response, source, this.budget).then((read) => {
      if (!read) return;
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
      const source = this.routes.source(raw.method ?? '', raw.url ?? '');
      if (source === undefined) return payload;
      const { raw: response } = reply as { raw: ServerResponse };
      if (!(await readRawBody(raw, response, source, this.budget))) return new Promise(() => undefined);
      hidden.set(raw, { ...raw.headers });
      hideBody(raw);
      return payload;
    });
    fastify.addHook('preValidation', async ({ raw }) => {
      Object.assign(raw.headers, hidden.get(raw));
    });
  }
}

const READER = 'webhookRawBodyReader';

/** Makes the request one without a body to whoever looks at its headers from here on. */
function hideBody(request: IncomingMessage): void {
  for (const name of ['content-type', 'content-length', 'transfer-encoding']) delete request.headers[name];
}
