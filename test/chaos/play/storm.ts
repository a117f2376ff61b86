import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from 'pg';
import { post } from '../../../examples/sender/post.js';
import { stripeEvent } from '../../support/signing.js';
import { unsettled } from './coroner.js';

export interface StormSetup {
  /** Where the next request goes. */
  readonly origin: () => string;
  readonly client: Client;
  readonly ms: number;
  readonly events: number;
  /** Longest wait for the backlog when the storm is over. */
  readonly drainMs: number;
}

export interface StormReport {
  readonly events: number;
  readonly deliveries: number;
  /** How often each answer was had. */
  readonly answers: Readonly<Record<string, number>>;
  readonly mostPending: number;
  readonly pendingAfter: number;
  /** Invoices whose total is not what their events add up to. */
  readonly wrongTotals: number;
  readonly claims: number;
}

const INVOICES = 10;
const LANES = 16;
const AMOUNT = 7;
const PAUSE_MS = 5;
/** Duplicates of each event that make a storm. */
const ENOUGH = 4;

/** Repeats billing events, freshly signed each time, for as long as asked, and then waits for the backlog: nobody does anything. */
export async function storm({ origin, client, ms, events, drainMs }: StormSetup): Promise<StormReport> {
  const answers: Record<string, number> = {};
  const acknowledged = new Set<number>();
  let deliveries = 0;
  let repeated = 0;
  let mostPending = 0;
  const end = performance.now() + ms;
  const lane = async () => {
    // Past the end only for events that nobody has acknowledged yet, and where a slow machine has had no storm so far.
    while (performance.now() < end || acknowledged.size < events || repeated < ENOUGH * events) {
      const n = deliveries % events;
      deliveries += 1;
      const { headers, body } = stripeEvent(`evt_${n}`, 'invoice.paid', {
        invoice: `in_${n % INVOICES}`,
        amount: AMOUNT,
      });
      const answer = await post(`${origin()}/webhooks/billing`, headers, body).catch(() => ({
        status: 0,
        body: '',
      }));
      const text = `${answer.status} ${answer.body}`.trim();
      answers[text] = (answers[text] ?? 0) + 1;
      if (answer.body.includes('duplicate')) repeated += 1;
      if (answer.status === 200) acknowledged.add(n);
      else await sleep(100);
      await sleep(PAUSE_MS);
    }
  };
  const lanes = Promise.all(Array.from({ length: LANES }, lane));
  const over = new AbortController();
  const watching = (async () => {
    while (!over.signal.aborted) {
      mostPending = Math.max(mostPending, await unsettled(client));
      await sleep(200);
    }
  })();
  await lanes;
  over.abort();
  await watching;
  const drained = performance.now() + drainMs;
  while ((await unsettled(client)) > 0 && performance.now() < drained) await sleep(100);
  const [totals] = (
    await client.query<{ wrong: number; claims: number }>(
      `SELECT (SELECT count(*)::int FROM generate_series(0, $1::int - 1) n LEFT JOIN chaos_invoice i ON i.id = 'in_' || n
                WHERE i.total IS DISTINCT FROM
                      $2::int * (SELECT count(*)::int FROM generate_series(0, $3::int - 1) e WHERE e % $1::int = n)) AS wrong,
              (SELECT count(*)::int FROM webhook_claim WHERE source = 'billing') AS claims`,
      [Math.min(INVOICES, events), AMOUNT, events],
    )
  ).rows;
  return {
    events,
    deliveries,
    answers,
    mostPending,
    pendingAfter: await unsettled(client),
    wrongTotals: totals!.wrong,
    claims: totals!.claims,
  };
}
