import { Injectable } from '@nestjs/common';
import { isWholeDatabases } from '../../core/classify.js';
import { SettleStore, type Settle } from '../../storage/settle.store.js';
import { LoneStatements } from './lone-statements.js';

const MAX_ROWS = 500;
const MAX_IN_FLIGHT = 2;

interface Waiting {
  readonly settle: Settle;
  readonly resolve: (settled: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Settles effects together: those that end while a settle is under way go with the next, so that a relay with many effects does not
 * pay a commit for each. Every row is fenced for itself.
 */
@Injectable()
export class GroupSettle {
  private waiting: Waiting[] = [];
  private inFlight = 0;

  constructor(
    private readonly store: SettleStore,
    private readonly statements: LoneStatements,
  ) {}

  /** As done. False when the lease is no longer ours. */
  settle(settle: Settle): Promise<boolean> {
    return new Promise((resolve, reject) => {
      this.waiting.push({ settle, resolve, reject });
      // Effects that end in the same turn of the event loop go along.
      if (this.waiting.length === 1) queueMicrotask(() => this.send());
    });
  }

  private send(): void {
    while (this.inFlight < MAX_IN_FLIGHT && this.waiting.length > 0) {
      this.inFlight += 1;
      void this.commit(this.take()).finally(() => {
        this.inFlight -= 1;
        this.send();
      });
    }
  }

  /** Each row once: two attempts of one row, the former's lease lost, go one after the other. */
  private take(): Waiting[] {
    const batch = new Map<string, Waiting>();
    const rest: Waiting[] = [];
    for (const one of this.waiting) {
      const { id } = one.settle.lease;
      if (batch.size < MAX_ROWS && !batch.has(id)) batch.set(id, one);
      else rest.push(one);
    }
    this.waiting = rest;
    return [...batch.values()];
  }

  private async commit(batch: readonly Waiting[]): Promise<void> {
    try {
      const settles = batch.map(({ settle }) => settle);
      const settled = await this.statements.send((manager) => this.store.settleMany(manager, settles));
      for (const { settle, resolve } of batch) resolve(settled.has(settle.lease.id));
    } catch (error) {
      for (const { settle, resolve, reject } of batch) {
        // One that is refused must not undo what the others have done outside.
        if (isWholeDatabases(error) || batch.length === 1) reject(error);
        else this.settleAlone(settle).then(resolve, reject);
      }
    }
  }

  private settleAlone({ lease, result }: Settle): Promise<boolean> {
    return this.statements.send((manager) => this.store.settle(manager, lease, result));
  }
}
