import type { INestApplicationContext } from '@nestjs/common';
import { BodyReader } from '../core/body.js';
import { WebhookInboxError } from '../core/errors.js';
import { RequestHeaders } from '../core/request.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { EventDispatcher } from '../inbox/event.dispatcher.js';
import type { Verdict } from '../inbox/verdict.js';
import { OutboxRelay } from '../outbox/outbox.relay.js';
import type { TickReport } from '../outbox/tick.report.js';

/** An event as a test names it. */
export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly payload: unknown;
  readonly occurredAt?: Date;
  /** @default '' */
  readonly tenant?: string;
}

/**
 * Delivers an event of a source past its signature, and from there on the way of every delivery: claimed, deduplicated, handled.
 * @throws WebhookInboxError UNKNOWN_SOURCE
 */
export async function deliver(
  app: INestApplicationContext,
  sourceName: string,
  event: TestEvent,
): Promise<Verdict> {
  const source = app.get<ResolvedOptions>(WEBHOOKS_OPTIONS).sources.get(sourceName);
  if (source === undefined) {
    throw new WebhookInboxError(
      'UNKNOWN_SOURCE',
      `No source '${sourceName}' is configured in WebhooksModule`,
    );
  }
  const { id, type, payload, occurredAt, tenant = '' } = event;
  const rawBody = Buffer.from(JSON.stringify(payload));
  const headers = RequestHeaders.from({ 'content-type': 'application/json' });
  const provider = Object.assign(Object.create(source.provider) as typeof source.provider, {
    identify: () => [{ id, type, occurredAt }],
  });
  return app.get(EventDispatcher).dispatch({
    source: { ...source, provider },
    request: { method: 'POST', url: `/webhooks/${sourceName}`, headers, rawBody },
    body: new BodyReader(rawBody),
    tenant,
    verifiedBy: 'test',
    stale: false,
  });
}

/** Runs handlers and effects until nothing is due: what failed and waits for its retry is left waiting. */
export async function runDue(app: INestApplicationContext, maxMs = 10_000): Promise<TickReport> {
  return app.get(OutboxRelay).drain({ maxMs });
}
