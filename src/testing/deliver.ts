import { randomInt } from 'node:crypto';
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
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { WebhookRoutes } from '../http/webhook.routes.js';
import { EventDispatcher } from '../inbox/event.dispatcher.js';
import type { Verdict } from '../inbox/answers.js';

/** An event as a test names it. */
export interface TestEvent {
  readonly id: string;
  readonly type: string;
  readonly payload: unknown;
  readonly occurredAt?: Date;
  /** @default '' */
  readonly tenant?: string;
}

/** Tests are seldom type-checked when they run, and a mistyped field would cause an error elsewhere. */
const eventSchema = z.object({
  id: z.string({ error: "expected the provider's id of the event, as text" }),
  type: z.string({ error: "expected the type of the event, such as 'invoice.paid'" }),
  payload: z.custom(isJson, { error: 'expected a payload that JSON can hold' }),
  occurredAt: z
    .custom<Date>((value) => types.isDate(value) && !Number.isNaN(value.getTime()), {
      error: "expected a Date, such as new Date('2026-11-30T12:00:00Z')",
    })
    .optional(),
  tenant: z.string({ error: 'expected the name of the tenant' }).optional(),
});

async function once(app: INestApplicationContext, sourceName: string, event: TestEvent): Promise<Verdict> {
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

async function twice(
  app: INestApplicationContext,
  source: string,
  event: TestEvent,
): Promise<[Verdict, Verdict]> {
  return [await once(app, source, event), await once(app, source, event)];
}

async function shuffled(
  app: INestApplicationContext,
  source: string,
  events: readonly TestEvent[],
  seed = randomInt(2 ** 31),
): Promise<ShuffledDeliveries> {
  const order = permuted(events, seed);
  const verdicts: Verdict[] = [];
  for (const event of order) verdicts.push(await once(app, source, event));
  return { seed, order: order.map(({ id }) => id), verdicts };
}

/** Fisher and Yates' shuffle, with Park and Miller's generator: a seed gives the same order on every machine. */
function permuted<T>(items: readonly T[], seed: number): T[] {
  const order = [...items];
  let state = (Math.abs(Math.trunc(seed)) % 2_147_483_646) + 1;
  for (let last = order.length - 1; last > 0; last -= 1) {
    state = (state * 48_271) % 2_147_483_647;
    const at = state % (last + 1);
    [order[last], order[at]] = [order[at]!, order[last]!];
  }
  return order;
}

/** Delivers test events. */
export interface Deliver {
  /**
   * Delivers an event of a source. It takes the path of a delivery after the signature: it is claimed, deduplicated and handled.
   * @throws WebhookInboxError UNKNOWN_SOURCE; ConfigurationError in an application that is not initialised; InputRefused for a wrong
   *   event, and when only a route with `@UseWebhook` takes it
   */
  (app: INestApplicationContext, source: string, event: TestEvent): Promise<Verdict>;
  /** Delivers an event, and delivers it again, as a provider does that got no answer. */
  twice(app: INestApplicationContext, source: string, event: TestEvent): Promise<[Verdict, Verdict]>;
  /**
   * Delivers events in another order, as a provider does whose deliveries overtake each other.
   * @param seed the same seed gives the same order. @default a new one, which the answer names
   */
  shuffled(
    app: INestApplicationContext,
    source: string,
    events: readonly TestEvent[],
    seed?: number,
  ): Promise<ShuffledDeliveries>;
}

/** The order that `deliver.shuffled` chose. */
export interface ShuffledDeliveries {
  /** Give it to `deliver.shuffled` to have this order again. */
  readonly seed: number;
  /** The ids, as they were delivered. */
  readonly order: readonly string[];
  /** The verdicts, in that order. */
  readonly verdicts: readonly Verdict[];
}

/** Delivers an event past the signature: it is claimed, deduplicated and handled. `deliver.twice` and `deliver.shuffled` repeat and reorder. */
export const deliver: Deliver = Object.assign(once, { twice, shuffled });

/** Without a value, of a function, a bigint or a circle JSON.stringify makes nothing, or throws. */
function isJson(value: unknown): boolean {
  try {
    return typeof JSON.stringify(value) === 'string';
  } catch {
    return false;
  }
}
