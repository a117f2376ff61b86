import { Inject, Injectable, Logger, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { Answer } from '../core/answer.js';
import { logLine } from '../core/log.js';
import { RequestHeaders, type WebhookRequest } from '../core/request.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { Source } from '../core/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { ANSWERS } from '../inbox/answers.js';
import { methodsOf } from '../inbox/delivery.verifier.js';
import { Inbox } from '../inbox/inbox.js';
import { Rejections } from '../inbox/rejections.js';
import { RefusedDelivery } from './answer.filter.js';
import { adapterRequest, keepState, nodeRequest, type AdapterRequest } from './delivery.state.js';
import { rawBodyOf } from './raw-body.js';
import { useWebhookOf } from './use-webhook.metadata.js';

/** Lets only verified deliveries through. Reads no body but the raw bytes, and touches no database. */
@Injectable()
export class SignatureGuard implements CanActivate {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    @Inject(WEBHOOKS_OPTIONS) protected readonly options: ResolvedOptions,
    protected readonly inbox: Inbox,
    protected readonly rejections: Rejections,
  ) {}

  /** @throws RefusedDelivery with the answer of the table in the README */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = adapterRequest(context);
    const source = this.source(context, request);
    this.checkMethod(source, nodeRequest(request).method ?? 'POST');
    const verified = await this.inbox.verify(source, this.webhookRequest(source, request));
    if ('status' in verified) throw new RefusedDelivery(verified);
    keepState(nodeRequest(request), { source, verified });
    // For @Body() of a route of the application's: parsed only now that the bytes are believed.
    if (verified.kind === 'delivery') request.body = verified.delivery.body.json();
    return true;
  }

  /** The source of a `@UseWebhook` route is the decorator's; on the module's own route it is in the path. */
  protected source(context: ExecutionContext, request: AdapterRequest): Source {
    const name = useWebhookOf(context.getHandler())?.source ?? request.params?.['source'] ?? '';
    const source = this.options.sources.get(name);
    if (source === undefined)
      throw this.refused('', 'unknown-source', `no source '${name}' is configured`, ANSWERS.unknownSource);
    return source;
  }

  protected checkMethod(source: Source, method: string): void {
    const methods = methodsOf(source);
    if (methods.includes(method)) return;
    throw this.refused(source.name, 'wrong-method', `expected ${methods.join(' or ')}, received ${method}`, {
      ...ANSWERS.wrongMethod,
      headers: { allow: methods.join(', ') },
    });
  }

  protected webhookRequest(source: Source, request: AdapterRequest): WebhookRequest {
    const node = nodeRequest(request);
    return {
      method: node.method ?? 'POST',
      url: request.originalUrl ?? request.url,
      headers: RequestHeaders.fromRaw(node.rawHeaders),
      rawBody: this.rawBody(source, request),
    };
  }

  /** The exact bytes, and never a parsed body put back into text: that would verify what nobody signed. */
  protected rawBody(source: Source, request: AdapterRequest): Buffer {
    const body = rawBodyOf(nodeRequest(request));
    if (body !== undefined && 'bytes' in body) return body.bytes;
    if (body !== undefined) {
      const { status } = body.refused;
      throw this.refused(source.name, `http-${status}`, `the body was not taken (${status})`, body.refused);
    }
    if (Buffer.isBuffer(request.rawBody)) return request.rawBody;
    this.logger.error(
      logLine(
        'the raw bytes of a webhook are gone: something read the request before this module. Remove the body parser that was ' +
          'installed on the HTTP server before NestFactory.create, or create the application with { rawBody: true }',
        { source: source.name },
      ),
    );
    throw new RefusedDelivery(ANSWERS.unavailable);
  }

  private refused(source: string, reason: string, detail: string, answer: Answer): RefusedDelivery {
    this.rejections.add(source, reason, detail);
    return new RefusedDelivery(answer);
  }
}
