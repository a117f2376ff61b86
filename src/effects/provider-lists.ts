import { HttpFailure, WebhookInboxError } from '../core/errors.js';
import type { BackfillContext, BackfillEvent } from '../handlers/backfill-source.decorator.js';

/** Where a provider's list is, and how it is asked for. */
export interface ProviderListOptions {
  /** Another host than the provider's, such as GitHub Enterprise's API. */
  readonly url?: string;
}

/** Options of `stripeEvents`. */
export interface StripeEventsOptions extends ProviderListOptions {
  /** A restricted key that may read events is enough. */
  readonly apiKey: string;
  /** Types, 20 at most. @default all */
  readonly types?: readonly string[];
}

/** Options of `githubDeliveries`. */
export interface GithubDeliveriesOptions extends ProviderListOptions {
  /** Of a person or an app that may read the hook. */
  readonly token: string;
  /** `repos/owner/name/hooks/123`, `orgs/name/hooks/123`, or `app/hook`. */
  readonly hook: string;
  /** Also deliveries that were answered 2xx, for a database that has lost claims; each costs a request. @default false */
  readonly answered?: boolean;
}

/** Options of `shopifyResources`. */
export interface ShopifyResourcesOptions extends ProviderListOptions {
  /** Such as 'my-shop.myshopify.com'. */
  readonly shop: string;
  readonly accessToken: string;
  /** The topic of the webhooks that would have come, such as 'orders/updated'. Its first part is the resource that is listed. */
  readonly topic: string;
  /** @default '2025-10' */
  readonly apiVersion?: string;
}

const GET_MS = 30_000;

/**
 * Stripe's own events, for a method with `@BackfillSource('stripe')`. Stripe keeps them for 30 days.
 * @see https://docs.stripe.com/api/events/list
 * @throws HttpFailure; so do the other lists
 */
export async function* stripeEvents(
  since: Date,
  { signal }: BackfillContext,
  { apiKey, types = [], url = 'https://api.stripe.com' }: StripeEventsOptions,
): AsyncGenerator<BackfillEvent> {
  const asked = new URLSearchParams({
    limit: '100',
    'created[gte]': String(Math.floor(since.getTime() / 1_000)),
  });
  for (const type of types) asked.append('types[]', type);
  for (;;) {
    const { json } = await get(
      `${url}/v1/events?${asked.toString()}`,
      { authorization: `Bearer ${apiKey}` },
      signal,
    );
    const { data, has_more: more } = json as { data: readonly { id: string }[]; has_more: boolean };
    for (const body of data) yield { body };
    const last = data.at(-1);
    if (!more || last === undefined) return;
    asked.set('starting_after', last.id);
  }
}

/**
 * Deliveries of a GitHub hook that were not answered 2xx: GitHub does not send them again by itself, and keeps them for 3 days.
 * @see https://docs.github.com/en/rest/repos/webhooks#list-deliveries-for-a-repository-webhook
 */
export async function* githubDeliveries(
  since: Date,
  { signal }: BackfillContext,
  { token, hook, answered = false, url = 'https://api.github.com' }: GithubDeliveriesOptions,
): AsyncGenerator<BackfillEvent> {
  const headers = { authorization: `Bearer ${token}`, accept: 'application/vnd.github+json' };
  const deliveries = `${url}/${hook}/deliveries`;
  const taken = new Set<string>();
  for (let page: string | undefined = `${deliveries}?per_page=100`; page !== undefined;) {
    const { json, next } = await get(page, headers, signal);
    for (const delivery of json as readonly GithubDelivery[]) {
      // Newest first.
      if (Date.parse(delivery.delivered_at) < since.getTime()) return;
      const isAnswered = delivery.status_code >= 200 && delivery.status_code < 300;
      if (isAnswered && !answered) taken.add(delivery.guid);
      if (taken.has(delivery.guid)) continue;
      taken.add(delivery.guid);
      const { json: whole } = await get(`${deliveries}/${delivery.id}`, headers, signal);
      const { payload } = (whole as { request: { payload: unknown } }).request;
      yield {
        body: payload,
        headers: { 'x-github-delivery': delivery.guid, 'x-github-event': delivery.event },
      };
    }
    page = next;
  }
}

interface GithubDelivery {
  readonly id: number;
  readonly guid: string;
  readonly delivered_at: string;
  readonly status_code: number;
  readonly event: string;
}

/**
 * Changes in a shop. Shopify lists resources and no webhooks, so an event is identified by resource and time. Give the source `dedupe: [{
 * header: 'x-shopify-topic' }, { path: 'admin_graphql_api_id' }, { path: 'updated_at' }]`.
 * @see https://shopify.dev/docs/api/admin-rest/usage/pagination
 */
export async function* shopifyResources(
  since: Date,
  { signal }: BackfillContext,
  { shop, accessToken, topic, apiVersion = '2025-10', url = `https://${shop}` }: ShopifyResourcesOptions,
): AsyncGenerator<BackfillEvent> {
  const [resource = ''] = topic.split('/', 1);
  const asked = new URLSearchParams({ limit: '250', status: 'any', updated_at_min: since.toISOString() });
  const first = `${url}/admin/api/${apiVersion}/${resource}.json?${asked.toString()}`;
  for (let page: string | undefined = first; page !== undefined;) {
    const { json, next } = await get(page, { 'x-shopify-access-token': accessToken }, signal);
    for (const body of (json as Readonly<Record<string, readonly unknown[]>>)[resource] ?? [])
      yield { body, headers: { 'x-shopify-topic': topic, 'x-shopify-shop-domain': shop } };
    page = next;
  }
}

async function get(url: string, headers: Readonly<Record<string, string>>, signal: AbortSignal) {
  const response = await fetch(url, {
    headers: { 'user-agent': 'nestjs-webhook-inbox', ...headers },
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(GET_MS)]),
  });
  const text = await response.text();
  if (!response.ok)
    throw new HttpFailure(response.status, Object.fromEntries(response.headers), text, new URL(url).origin);
  return { json: JSON.parse(text) as unknown, next: nextPage(url, response.headers.get('link') ?? '') };
}

/** @throws WebhookInboxError BACKFILL_REFUSED for a page of another host: the token is sent to none but its own. */
function nextPage(url: string, link: string): string | undefined {
  const next = /<([^>]+)>;\s*rel="?next"?/.exec(link)?.[1];
  if (next === undefined) return undefined;
  const [asked, named] = [new URL(url).origin, new URL(next, url)];
  if (named.origin === asked) return named.href;
  throw new WebhookInboxError(
    'BACKFILL_REFUSED',
    `Backfill refused: expected the next page at ${asked}, received ${named.origin}: set the list's \`url\` to the API's own address`,
  );
}
