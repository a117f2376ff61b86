import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { checkDecider, type Decider } from '../../core/decider.js';
import type { EventKey } from '../../core/event.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { AuditStore, type AuditEntry } from './audit.store.js';

export type Deed = Omit<AuditEntry, 'actor' | 'reason'>;
type Outcome = Readonly<Record<string, unknown>>;

/**
 * The one way to what people do: a row is written before the deed, so that nothing is done which is not noted, and its outcome is
 * added after it.
 */
@Injectable()
export class Audit {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: AuditStore,
  ) {}

  /**
   * @param act returns the result and the outcome for the audit row
   * @throws InputRefused when `by` or `reason` is missing or blank
   * @throws the error of `act`
   */
  async record<T>(deed: Deed, decider: Decider, act: () => Promise<readonly [T, Outcome]>): Promise<T> {
    checkDecider(decider);
    const { by, reason } = decider;
    const id = await this.store.begin(this.dataSource.manager, { ...deed, actor: by, reason });
    try {
      const [result, outcome] = await act();
      await this.recordEnd(id, outcome);
      return result;
    } catch (error) {
      await this.recordEnd(id, { failed: errorText(error) });
      throw error;
    }
  }

  /** As `noted` where a person asks; without `by` and `reason` it is the application's own doing, and its log says so. */
  async recordIfAsked<T>(
    deed: Deed,
    { by, reason }: Partial<Decider>,
    act: () => Promise<readonly [T, Outcome]>,
  ): Promise<T> {
    if (by === undefined && reason === undefined) return (await act())[0];
    return this.record(deed, { by, reason } as Decider, act);
  }

  /** A row for what the application has done by itself, after it: only its outcome makes it worth one. */
  async told(deed: Deed, { by, reason }: Decider, outcome: Outcome): Promise<void> {
    try {
      const id = await this.store.begin(this.dataSource.manager, { ...deed, actor: by, reason });
      await this.store.end(this.dataSource.manager, id, outcome);
    } catch (error) {
      this.logger.warn(
        logLine(`no audit row for '${deed.action}': ${errorText(error)}`, { target: deed.target }),
      );
    }
  }

  /** The deed is done, or is not: that its outcome could not be added must not say otherwise. */
  private async recordEnd(id: string, outcome: Outcome): Promise<void> {
    try {
      await this.store.end(this.dataSource.manager, id, outcome);
    } catch (error) {
      this.logger.warn(logLine(`audit row without its outcome: ${errorText(error)}`, { audit: id }));
    }
  }
}

/** Rows as an audit names them. */
export function targetOfRows(ids: readonly string[]): Pick<Deed, 'target' | 'detail'> {
  const [first = 'none'] = ids;
  return { target: ids.length === 1 ? first : `${ids.length} rows, ${first} first`, detail: { ids } };
}

/** Events as an audit names them. */
export function targetOfEvents(events: readonly EventKey[]): string {
  const [first] = events;
  const name =
    first === undefined ? 'none' : `${first.source} ${first.tenant} ${first.eventId}`.replace('  ', ' ');
  return events.length === 1 ? name : `${events.length} events, ${name} first`;
}
