import { Inject, Injectable } from '@nestjs/common';
import { PermanentError } from '../core/errors.js';
import type { WebhookEvent } from '../core/event.js';
import { parsePayload } from '../core/payload.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { validated } from '../core/standard-schema.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import type { Handler } from '../handlers/handler.registry.js';
import type { LeasedRow } from '../storage/leased.rows.js';
import type { StoredEvent } from '../storage/stored.event.js';

/** An event ready for its handler. */
export interface Prepared {
  readonly event: WebhookEvent;
  /** What `hydrate` fetched. */
  readonly current: unknown;
}

/** What is asked of a provider at the moment. */
interface Fetch {
  readonly startedAt: number;
  readonly answer: Promise<unknown>;
  /** Fires when none of those who share it waits any more: one whose lease was lost takes nothing from the others. */
  readonly controller: AbortController;
  waiting: number;
}

/** Makes a stored event what a handler gets: parsed, validated, with the current state fetched. Opens no transaction. */
@Injectable()
export class EventPreparer {
  private readonly inFlight = new Map<string, Fetch>();

  constructor(@Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions) {}

  /** @throws UnreadableBody, SchemaMismatch, PermanentError, and what `hydrate.fetch` throws */
  async prepare(row: LeasedRow, handler: Handler | undefined, signal: AbortSignal): Promise<Prepared> {
    const parsed = this.parse(row.event!);
    const { schema, hydrate } = handler?.options ?? {};
    const event = schema ? { ...parsed, payload: await validated(schema, parsed.payload) } : parsed;
    return { event, current: hydrate && (await this.hydrate(handler!, event, row, signal)) };
  }

  /** @throws UnreadableBody, PermanentError */
  parse({ body, ...stored }: StoredEvent): WebhookEvent {
    if (body === null) throw new PermanentError('the body was removed, by retention or by a person');
    const contentType = stored.headers['content-type'];
    const provider = this.options.sources.get(stored.source)?.provider;
    const payload = provider?.parse ? provider.parse(body, contentType) : parsePayload(body, contentType);
    return { ...stored, rawBody: body, payload };
  }

  // A burst of events about one resource asks the provider once. Never with an answer from before the event: what is under way is
  // shared only when it was asked for after the row had been leased, and so after the event had arrived.
  private async hydrate(
    handler: Handler,
    event: WebhookEvent,
    { leasedAt = Infinity }: LeasedRow,
    signal: AbortSignal,
  ): Promise<unknown> {
    const hydrate = handler.options.hydrate!;
    const key = JSON.stringify([handler.name, event.tenant, hydrate.key.call(handler.instance, event)]);
    const running = this.inFlight.get(key);
    if (running !== undefined && running.startedAt >= leasedAt && !running.controller.signal.aborted)
      return shared(running, signal);
    const controller = new AbortController();
    const startedAt = performance.now();
    const fetching = hydrate.fetch.call(handler.instance, event, { signal: controller.signal });
    const answer = Promise.resolve(fetching).finally(() => {
      if (this.inFlight.get(key) === fetch) this.inFlight.delete(key);
    });
    const fetch: Fetch = { startedAt, answer, controller, waiting: 0 };
    this.inFlight.set(key, fetch);
    return shared(fetch, signal);
  }
}

async function shared(fetch: Fetch, signal: AbortSignal): Promise<unknown> {
  const leave = () => {
    fetch.waiting -= 1;
    if (fetch.waiting === 0) fetch.controller.abort(signal.reason);
  };
  fetch.waiting += 1;
  signal.addEventListener('abort', leave, { once: true });
  try {
    return await fetch.answer;
  } finally {
    signal.removeEventListener('abort', leave);
  }
}
