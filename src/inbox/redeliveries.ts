import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import type { Source } from '../core/options/resolve-source.js';
import type { Provider } from '../core/provider.js';
import { Tally } from '../core/telemetry/tally.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { isSameContent } from '../sources/events/same-content.js';
import { ClaimStore } from '../storage/claim.store.js';
import type { Statements } from '../storage/postgres/one-message.js';
import { Conflicts } from './conflicts.js';
import { bodySha256, type IncomingEvent } from './delivery.js';

/**
 * Records deliveries of claimed events: compares their bytes, and revives dead rows. Callers count them after the commit, since a
 * transaction that fails is tried again.
 */
@Injectable()
export class Redeliveries {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claims: ClaimStore,
    private readonly conflicts: Conflicts,
    private readonly tally: Tally,
  ) {}

  /** As `recordAll`, for one. */
  async record(statements: Statements, source: Source, event: IncomingEvent): Promise<boolean> {
    return (await this.recordAll(statements, [{ source, event }]))[0]!;
  }

  /**
   * For deliveries of claimed events: revives dead handler rows where we retry, and compares the bytes. True for those with rows
   * that were revived.
   */
  async recordAll(
    statements: Statements,
    lost: readonly { readonly source: Source; readonly event: IncomingEvent }[],
  ): Promise<boolean[]> {
    const met = lost.map(({ source, event }) => ({ event, revive: source.retries === 'own' }));
    const others = met.flatMap(({ event }) => othersOf(event)).map((event) => ({ event, revive: false }));
    return (await this.compareBytes(statements, [...met, ...others])).slice(0, lost.length);
  }

  /**
   * Records deliveries of claimed events. For each it returns whether its dead rows were revived. Bytes that differ from the first are
   * counted, and alerted where they contradict it.
   */
  private async compareBytes(
    statements: Statements,
    deliveries: readonly { readonly event: IncomingEvent; readonly revive: boolean }[],
  ): Promise<boolean[]> {
    if (deliveries.length === 0) return [];
    const met = deliveries.map(({ event, revive }) => {
      const compare = howToCompare(this.options.sources.get(event.source)!.provider);
      return { ...event, bodySha256: bodySha256(event), revive, compare };
    });
    const results = await this.claims.recordDuplicates(statements, met);
    const differing = met.flatMap((event, index) => {
      const { differs, first } = results[index]!;
      return differs ? [{ ...event, first }] : [];
    });
    const contradicting = differing.filter(({ source, compare, first, body }) => {
      const { changes = [] } = this.options.sources.get(source)!.provider.retries;
      return compare === 'bytes' || (first !== undefined && !isSameContent(first, body, changes));
    });
    if (contradicting.length > 0) await this.claims.recordConflicts(statements, contradicting);
    for (const { source } of differing) this.tally.add(source, 'other-bytes');
    for (const event of contradicting) this.conflicts.alertOnce(event, 'other-bytes');
    return results.map(({ revived }) => revived);
  }

  /** The other bytes that came with an event in the same delivery. In a claim that was just made nothing is dead yet. */
  async recordOthers(statements: Statements, events: readonly IncomingEvent[]): Promise<void> {
    const others = events.flatMap(othersOf);
    await this.compareBytes(
      statements,
      others.map((event) => ({ event, revive: false })),
    );
  }
}

/** The other bytes that a delivery brought under the id of an event. */
function othersOf(event: IncomingEvent): IncomingEvent[] {
  return event.others.map((body) => ({ ...event, body, others: [] }));
}

/** An id that no signature covers may stand before any bytes: there, others say nothing unless retries repeat them. */
function howToCompare({ signed, retries }: Provider): 'bytes' | 'content' | undefined {
  if (retries.sameBytes) return 'bytes';
  return signed.id && retries.changes !== undefined ? 'content' : undefined;
}
