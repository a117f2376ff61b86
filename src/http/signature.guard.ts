import {
  Inject,
  Injectable,
  NotFoundException,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { isObservable, lastValueFrom } from 'rxjs';
import { noSource } from '../core/options/known-source.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import { nameRoute } from '../core/telemetry/tracing.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { ANSWERS } from '../inbox/answers.js';
import { Inbox } from '../inbox/inbox.js';
import { ApplicationsOwn, RefusedDelivery } from './answer.filter.js';
import { adapterRequest, keepState, nodeRequest, routeOf, type AdapterRequest } from './delivery-state.js';
import { OwnEnhancers } from './direct/own-enhancers.js';
import { rawBodyOf } from './body/arrival.js';
import { useWebhookOf } from './use-webhook.metadata.js';
import { WebhookRequests } from './webhook.requests.js';
import { WebhookRoutes } from './webhook.routes.js';

/** Lets only verified deliveries through. Reads no body but the raw bytes, and touches no database. */
@Injectable()
export class SignatureGuard implements CanActivate {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly inbox: Inbox,
    private readonly requests: WebhookRequests,
    private readonly routes: WebhookRoutes,
    private readonly enhancers: OwnEnhancers,
  ) {}

  /** @throws RefusedDelivery with the answer of the table in the README */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const instead = this.enhancers.insteadOf(this, SignatureGuard, 'canActivate');
    return instead === undefined ? this.verify(context) : awaitAnswer(instead.canActivate(context));
  }

  private async verify(context: ExecutionContext): Promise<boolean> {
    const request = adapterRequest(context);
    nameRoute(routeOf(request));
    const source = this.source(context, request);
    this.checkRead(request);
    const url = request.originalUrl ?? request.url;
    const received = this.requests.of(source, nodeRequest(request), url, request.rawBody);
    const verified = await this.inbox.verify(source, received);
    if ('status' in verified) throw new RefusedDelivery(verified);
    keepState(nodeRequest(request), { source, verified });
    // For @Body() of a route of the application's: parsed only now that the bytes are believed.
    if (verified.kind === 'delivery') request.body = verified.delivery.body.json();
    return true;
  }

  /** The source of a `@UseWebhook` route is the decorator's; on the module's own route it is in the path. */
  private source(context: ExecutionContext, request: AdapterRequest): Source {
    const bound = useWebhookOf(context.getHandler())?.source;
    const name = bound ?? request.params?.['source'] ?? '';
    const source = this.options.sources.get(name);
    if (source === undefined && bound === undefined && this.routes.isApplications(request))
      throw new ApplicationsOwn();
    if (source === undefined)
      throw this.requests.refuse(
        '',
        'unknown-source',
        () => noSource(this.options, name),
        ANSWERS.unknownSource,
      );
    if (bound === undefined && !this.routes.isOwn(request)) throw notFound(request);
    return source;
  }

  /** A spelling that the router takes and RFC 9112 does not know (`/webhooks\github#`) is no URL of ours, and its bytes were left alone. */
  private checkRead(request: AdapterRequest): void {
    const isRead = rawBodyOf(nodeRequest(request)) !== undefined || Buffer.isBuffer(request.rawBody);
    if (!isRead && this.routes.chosen(request) === undefined) throw notFound(request);
  }
}

/** As Nest answers for a path that no route has. */
function notFound(request: AdapterRequest): NotFoundException {
  return new NotFoundException(`Cannot ${nodeRequest(request).method} ${request.originalUrl ?? request.url}`);
}

function awaitAnswer(answer: ReturnType<CanActivate['canActivate']>): boolean | Promise<boolean> {
  return isObservable(answer) ? lastValueFrom(answer) : answer;
}
