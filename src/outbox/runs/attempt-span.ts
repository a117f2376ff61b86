import { SpanKind, type Attributes } from '@opentelemetry/api';
import { measure } from '../../core/telemetry/meters.js';
import { contextOf, linksTo, inSpan } from '../../core/telemetry/tracing.js';
import type { LeasedRow } from '../../storage/leased-rows.js';

/**
 * Runs an attempt in a span of its row's trace, and measures it. A run of a delivery belongs to the delivery's own span. A batch is linked
 * to the traces of all its events.
 */
export async function runAttempt<T>(
  rows: readonly LeasedRow[],
  outcomesOf: (result: T) => readonly string[],
  run: () => Promise<T>,
  inDelivery = false,
): Promise<T> {
  const row = rows[0]!;
  const isBatch = rows.length > 1;
  const options = {
    kind: SpanKind.CONSUMER,
    attributes: attributesOf(row, rows.length),
    parent: inDelivery ? undefined : contextOf(isBatch ? undefined : row.trace),
    links: isBatch ? linksTo(rows.map(({ trace }) => trace)) : undefined,
  };
  const startedAt = performance.now();
  let outcomes: readonly string[] = ['error'];
  try {
    return await inSpan(`${row.kind} ${row.name}`, options, async (span) => {
      const result = await run();
      outcomes = outcomesOf(result);
      span?.setAttribute('webhook_inbox.outcome', outcomes[0] ?? 'lost');
      return result;
    });
  } finally {
    measureAttempt(row, outcomes, (performance.now() - startedAt) / 1_000);
  }
}

function measureAttempt({ kind, name }: LeasedRow, outcomes: readonly string[], seconds: number): void {
  for (const outcome of outcomes) measure('webhook_inbox.attempts', 1, { kind, name, outcome });
  const metric = kind === 'handler' ? 'webhook_inbox.handler.duration' : 'webhook_inbox.effect.duration';
  measure(metric, seconds, { name, outcome: outcomes[0] ?? 'lost' });
}

function attributesOf({ id, name, attempt, event }: LeasedRow, events: number): Attributes {
  return {
    'messaging.system': 'webhook_inbox',
    'messaging.operation.name': 'process',
    'messaging.operation.type': 'process',
    'messaging.destination.name': name,
    'messaging.message.id': id,
    'messaging.batch.message_count': events > 1 ? events : undefined,
    'webhook_inbox.source': event?.source,
    'webhook_inbox.event_id': event?.eventId,
    'webhook_inbox.attempt': attempt,
  };
}
