import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { ClaimStore } from '../storage/claim.store.js';
import { OutboxStore } from '../storage/outbox.store.js';
import type { IncomingEvent, VerifiedDelivery } from './delivery.js';
import { outsideWindow } from './delivery.verifier.js';

const FRESH_MS = 1_000;

/** Which events of a verified delivery may be claimed: not those of a stale unknown one, and with `maxPending` not without end. */
@Injectable()
export class Admission {
  private lastCount: { readonly at: number; readonly full: Promise<boolean> } | undefined;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly claims: ClaimStore,
    private readonly outbox: OutboxStore,
  ) {}

  /**
   * A signature outside the window may be that of a retry with its first timestamp. If the event is known, it is met as any other
   * redelivery is.
   * @throws SignatureRejection
   */
  async refuseStale(delivery: VerifiedDelivery, events: readonly IncomingEvent[]): Promise<void> {
    if (!delivery.stale) return;
    for (const event of events) {
      if (!(await this.isKnown(event))) throw outsideWindow(delivery.source, delivery.skewMs);
    }
  }

  /**
   * While too much is pending, known events only. Their redeliveries add no row, and under `retries: 'provider'` nothing else works
   * off the waiting rows.
   */
  async admit(events: readonly IncomingEvent[]): Promise<readonly IncomingEvent[]> {
    if (!(await this.isFull())) return events;
    const known: IncomingEvent[] = [];
    for (const event of events) if (await this.isKnown(event)) known.push(event);
    return known;
  }

  /** Whether more rows are pending than `maxPending`. It counts at most once a second. */
  async isFull(): Promise<boolean> {
    const { maxPending } = this.options;
    if (maxPending === false) return false;
    if (this.lastCount === undefined || performance.now() - this.lastCount.at > FRESH_MS) {
      const full = this.outbox
        .countPending(this.dataSource.manager, maxPending + 1)
        .then((count) => count > maxPending);
      this.lastCount = { at: performance.now(), full };
    }
    return this.lastCount.full;
  }

  private async isKnown(event: IncomingEvent): Promise<boolean> {
    return (await this.claims.find(this.dataSource.manager, event)) !== undefined;
  }
}
