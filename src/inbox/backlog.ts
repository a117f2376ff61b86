import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { OutboxStore } from '../storage/outbox.store.js';

const FRESH_MS = 1_000;

/** `maxPending`: whether so much waits that new deliveries are better kept by their providers. Looks at most once a second. */
@Injectable()
export class Backlog {
  private looked: { readonly at: number; readonly full: Promise<boolean> } | undefined;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
  ) {}

  async isFull(): Promise<boolean> {
    const { maxPending } = this.options;
    if (maxPending === false) return false;
    if (this.looked === undefined || performance.now() - this.looked.at > FRESH_MS) {
      const full = this.store
        .countPending(this.dataSource.manager, maxPending + 1)
        .then((count) => count > maxPending);
      this.looked = { at: performance.now(), full };
    }
    return this.looked.full;
  }
}
