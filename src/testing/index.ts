import { types } from 'node:util';
import type { INestApplicationContext } from '@nestjs/common';
import { z } from 'zod';
import { BodyReader } from '../core/body.js';
import { InputRefused } from '../core/errors.js';
import { knownSource } from '../core/options/known-source.js';
import { RequestHeaders } from '../core/request.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { checkInput } from '../core/options/schema.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { within } from '../core/time/within.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { WebhookRoutes } from '../http/webhook.routes.js';
import { EventDispatcher } from '../inbox/event.dispatcher.js';
import type { Verdict } from '../inbox/verdict.js';
import { HandOff } from '../outbox/relay/hand-off.js';
import { OutboxRelay } from '../outbox/relay/outbox.relay.js';
import { Rounds } from '../outbox/relay/rounds.js';
import { RelayLoop } from '../outbox/relay/relay.loop.js';
import { report, subtract, type TickReport } from '../outbox/relay/tick-report.js';

export { signWebhook, testKeys, type SignedWebhook, type SignOptions } from './sign-webhook.js';
export type { TestKeys } from './signers/signer.js';

/** An event as a test names it. */
export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly payload: unknown;
  readonly occurredAt?: Date;
  /** @default '' */
  readonly tenant?: string;
}

/** Tests are seldom type-checked when they run, and then a slip shows as an error of somebody else's. */
const eventSchema = z.object({
  id: z.string({ error: "expected the provider's id of the event, as text" }),
  type: z.string({ error: "expected the type of the event, such as 'invoice.paid'" }),
  payload: z.custom(isJson, { error: 'expected what the provider would send: anything that JSON can hold' }),
  occurredAt: z
    .custom<Date>((value) => types.isDate(value) && !Number.isNaN(value.getTime()), {
      error: "expected a Date, such as new Date('2026-11-30T12:00:00Z')",
    })
    .optional(),
  tenant: z.string({ error: 'expected the name of the tenant' }).optional(),
});

/**
 * Delivers an event of a source past its signature, and from there on the way of every delivery: claimed, deduplicated, handled.
 * @throws WebhookInboxError UNKNOWN_SOURCE; ConfigurationError in an application that is not initialised; InputRefused for an event
 *   that is none, and when only a route with `@UseWebhook` would take it
 */
export async function deliver(
  app: INestApplicationContext,
  sourceName: string,
  event: TestEvent,
): Promise<Verdict> {
  const source = knownSource(app.get<ResolvedOptions>(WEBHOOKS_OPTIONS), sourceName);
  checkInput(eventSchema, event, 'deliver() event');
  const { id, type, payload, occurredAt, tenant = '' } = event;
  const registry = app.get(HandlerRegistry);
  registry.checkFilled();
  if (registry.match(sourceName, type).length === 0 && registry.routesOf(sourceName).length > 0) {
    const paths = app.get(WebhookRoutes).paths(sourceName).routes.join(' or ');
    throw new InputRefused(
      `deliver(): only a route with @UseWebhook takes '${type}' of source '${sourceName}', and a route runs over HTTP: ` +
        `send a signed request to ${paths} of app.getHttpServer() instead`,
    );
  }
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

/** Without a value, of a function, a bigint or a circle JSON.stringify makes nothing, or throws. */
function isJson(value: unknown): boolean {
  try {
    return typeof JSON.stringify(value) === 'string';
  } catch {
    return false;
  }
}

/** What an application's relay had done when `runDue` last told of it. */
const told = new WeakMap<Rounds, TickReport>();

/**
 * Runs handlers and effects until nothing is due: what failed and waits for its retry is left waiting. The relay's own rounds rest
 * meanwhile. What they have begun or done since the last call is waited for and counted, so that the report is the same whoever
 * was first.
 * @throws ConfigurationError under `relay: false`, and in an application that is not initialised
 */
export async function runDue(app: INestApplicationContext, maxMs = 10_000): Promise<TickReport> {
  app.get(HandlerRegistry).checkFilled();
  const rounds = app.get(Rounds);
  const end = performance.now() + maxMs;
  await app.get(RelayLoop).hold(async () => {
    await app.get(HandOff).finish(maxMs);
    await within(rounds.waitForRuns(), maxMs);
    await app.get(OutboxRelay).drain({ maxMs: end - performance.now() });
  });
  const before = told.get(rounds) ?? report([]);
  told.set(rounds, rounds.totals);
  return subtract(rounds.totals, before);
}
