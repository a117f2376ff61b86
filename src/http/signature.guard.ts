import { Inject, Injectable, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { noSource } from '../core/known-source.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { Source } from '../core/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { ANSWERS } from '../inbox/answers.js';
import { Inbox } from '../inbox/inbox.js';
import { RefusedDelivery } from './answer.filter.js';
import { adapterRequest, keepState, nodeRequest, type AdapterRequest } from './delivery.state.js';
import { useWebhookOf } from './use-webhook.metadata.js';
import { WebhookRequests } from './webhook.requests.js';

/** Lets only verified deliveries through. Reads no body but the raw bytes, and touches no database. */
@Injectable()
export class SignatureGuard implements CanActivate {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly inbox: Inbox,
    private readonly requests: WebhookRequests,
  ) {}

  /** @throws RefusedDelivery with the answer of the table in the README */
  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = adapterRequest(context);
    const source = this.source(context, request);
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
    const name = useWebhookOf(context.getHandler())?.source ?? request.params?.['source'] ?? '';
    const source = this.options.sources.get(name);
    if (source !== undefined) return source;
    throw this.requests.refused('', 'unknown-source', noSource(this.options, name), ANSWERS.unknownSource);
  }
}
