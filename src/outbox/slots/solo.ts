import { Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { FailureSettler } from '../runs/failure.settler.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { rowFacts } from '../relay/row-facts.js';

/** How often the time doubles at most. From then on each loss counts. */
const MAX_DOUBLINGS = 4;

/** Makes the solos of rows that were lost twice. */
@Injectable()
export class Solos {
  /** How long nothing else begins beside a row that was lost twice, in milliseconds; twice as long with each further loss. */
  firstMs = 1_000;
  private readonly logger = new InboxLogger();

  constructor(
    private readonly store: OutboxStore,
    private readonly statements: LoneStatements,
    private readonly failures: FailureSettler,
  ) {}

  /** @param changed others may begin, or the row itself */
  of(row: LeasedRow, changed: () => void): Solo {
    const doublings = Math.min(Math.max(0, row.lost - 2), MAX_DOUBLINGS);
    // An effect's loss always counts: its call may have been made.
    const counts = row.kind === 'effect' || doublings === MAX_DOUBLINGS;
    return new Solo(this.firstMs * 2 ** doublings, counts ? undefined : () => this.excuse(row), changed);
  }

  private async excuse(row: LeasedRow): Promise<void> {
    this.failures.excuse(row);
    try {
      await this.statements.send((manager) => this.store.excuse(manager, row));
    } catch (error) {
      this.logger.warn(logLine(`a lost attempt could not be uncounted: ${errorText(error)}`, rowFacts(row)));
    }
  }
}

/**
 * A row that was lost twice runs alone for a bounded time. First it waits for running jobs to end, then it runs with nothing else begun
 * beside it. A row that kills its process mostly does so at once, and is then alone. After that time other jobs begin. A loss beside other
 * jobs does not count, since another row may have caused it.
 */
export class Solo {
  /** Nothing else begins. */
  holds = true;
  private waits = true;
  private phase = 0;
  private timer: NodeJS.Timeout | undefined;

  /**
   * @param excuse records that a loss of this attempt is not to be counted; undefined where it is
   * @param changed others may begin, or the row itself
   */
  constructor(
    private readonly ms: number,
    private excuse: (() => Promise<void>) | undefined,
    private readonly changed: () => void,
  ) {
    this.letOthersLater();
  }

  /** @param othersRun whether anything else runs */
  mayBegin(othersRun: boolean): boolean {
    return !othersRun || !this.waits;
  }

  begin(): void {
    this.holds = true;
    this.letOthersLater();
  }

  end(): void {
    this.phase += 1;
    clearTimeout(this.timer);
    this.holds = false;
  }

  private letOthersLater(): void {
    this.phase += 1;
    const { phase } = this;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.letOthers(phase), this.ms);
  }

  private async letOthers(phase: number): Promise<void> {
    const { excuse } = this;
    this.excuse = undefined;
    await excuse?.();
    if (phase !== this.phase) return;
    this.waits = false;
    this.holds = false;
    this.changed();
  }
}
