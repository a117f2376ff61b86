import { Inject, Injectable } from '@nestjs/common';
import { runAround } from '../../core/around.js';
import { PermanentError } from '../../core/errors.js';
import type { WebhookEvent } from '../../core/event.js';
import { refuseLazy, outcomeOf } from '../../core/lazy.js';
import { parsePayload } from '../../core/body.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { validate } from '../../core/options/standard-schema.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { orAborted } from '../../core/time/waits.js';
import type { Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import type { StoredEvent } from '../../storage/stored-event.js';
import { runInfo } from '../relay/row-facts.js';
import { SharedFetches } from './shared-fetches.js';

/** An event ready for its handler. */
export interface Prepared {
  readonly event: WebhookEvent;
  /** The value that `hydrate` fetched. */
  readonly current: unknown;
}

/** Makes a stored event what a handler gets: parsed, validated, with the current state fetched. Opens no transaction. */
@Injectable()
export class EventPreparer {
  private readonly fetches = new SharedFetches();

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  /**
   * At once, where there is neither a schema nor a fetch. It waits no longer than until `signal` fires.
   * @throws UnreadableBody, SchemaMismatch, PermanentError, and the error of `hydrate.fetch`
   */
  async prepare(row: LeasedRow, handler: Handler | undefined, signal: AbortSignal): Promise<Prepared> {
    const event = this.parse(row.event!);
    const { schema, hydrate } = handler?.options ?? {};
    if (schema === undefined && hydrate === undefined) return { event, current: undefined };
    return orAborted(this.complete(event, row, handler!, signal), signal);
  }

  private async complete(
    parsed: WebhookEvent,
    row: LeasedRow,
    handler: Handler,
    signal: AbortSignal,
  ): Promise<Prepared> {
    const { schema, hydrate } = handler.options;
    const event = schema ? { ...parsed, payload: await validate(schema, parsed.payload) } : parsed;
    return { event, current: hydrate && (await this.hydrate(handler, event, row, signal)) };
  }

  /** @throws UnreadableBody, PermanentError */
  parse({ body, ...stored }: StoredEvent): WebhookEvent {
    if (body === null) throw new PermanentError('the body was removed, by retention or by a person');
    const contentType = stored.headers['content-type'];
    const provider = this.options.sources.get(stored.source)?.provider;
    const payload = provider?.parse ? provider.parse(body, contentType) : parsePayload(body, contentType);
    return { ...stored, rawBody: body, payload };
  }

  /** Of a resource that many events are about the provider is asked once for several of them. */
  private hydrate(
    handler: Handler,
    event: WebhookEvent,
    row: LeasedRow,
    signal: AbortSignal,
  ): Promise<unknown> {
    const hydrate = handler.options.hydrate!;
    const name = `hydrate of ${handler.name}`;
    const resource: unknown = hydrate.key.call(handler.instance, event);
    // As JSON every promise is the same: one resource's state would be taken for another's.
    refuseLazy(resource, `the key of ${name}`);
    const key = JSON.stringify([handler.name, event.tenant, resource]);
    const maxPauseMs = handler.timeoutMs / 4;
    const fetch = (nobodyWaits: AbortSignal) =>
      outcomeOf(
        () => hydrate.fetch.call(handler.instance, event, { signal: nobodyWaits }),
        name,
        nobodyWaits,
      );
    const info = runInfo(row, 'hydrate');
    return this.fetches.get(key, row.arrivedAt, maxPauseMs, signal, (nobodyWaits) =>
      runAround(this.options.around, info, () => fetch(nobodyWaits)),
    );
  }
}
