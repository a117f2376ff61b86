import { Inject, Injectable } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { isRefusedContent } from '../core/classify.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import type { Alert } from '../core/telemetry/alert.js';
import { Alerts } from '../core/telemetry/alerts.js';
import { Tally, type Counted } from '../core/telemetry/tally.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { AlertStore, type ToldAlert } from '../storage/desk/alert.store.js';
import { StatStore } from '../storage/desk/stat.store.js';
import { inTransaction } from '../storage/postgres/connection.js';
import { storeErrorText } from '../storage/postgres/store-error.js';
import { Watch } from './watch.js';

/** When a connection is given up that does not answer. */
const END_MS = 5_000;
const MAX_ALERTS = 100;

type KeptAlert = Omit<ToldAlert, 'id'>;
const NOTHING: Counted = { metrics: [], duplicates: [], secrets: [] };

/** Writes this process's counts and alerts to the tables. */
@Injectable()
export class DeskWriter {
  private readonly logger = new InboxLogger();
  /** Counts that earlier rounds could not write down. */
  private readonly unwritten = new Tally();
  private alerts: KeptAlert[] = [];

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly tally: Tally,
    private readonly store: StatStore,
    private readonly alertStore: AlertStore,
    private readonly watch: Watch,
    alerts: Alerts,
  ) {
    alerts.listen((alert) => this.keep(alert));
  }

  /** @throws when the database cannot be used; the counts are kept for the next call */
  async flush(): Promise<void> {
    const counted = this.tally.drain();
    const alerts = this.alerts;
    this.alerts = [];
    this.watch.counted(counted.metrics);
    // Counts of an earlier round that could not be written were watched then.
    this.unwritten.giveBack(counted);
    const { metrics } = this.unwritten.drain();
    try {
      await this.write({ ...counted, metrics }, alerts);
    } catch (error) {
      if (!isRefusedContent(error)) {
        this.keepUnwritten({ ...counted, metrics }, alerts);
        throw error;
      }
      await this.writeApart({ ...counted, metrics }, alerts);
    }
  }

  private async write(counted: Counted, alerts: readonly KeptAlert[]): Promise<void> {
    const write = async (manager: EntityManager) => {
      await this.store.lightly(manager);
      await this.store.flush(manager, counted);
      await this.alertStore.add(manager, alerts);
    };
    await inTransaction(this.dataSource.manager, END_MS, write, END_MS);
  }

  /** Each by itself, so that one that the database refuses is lost alone: it would be refused again at each round. */
  private async writeApart(
    { metrics, duplicates, secrets }: Counted,
    alerts: readonly KeptAlert[],
  ): Promise<void> {
    for (const one of metrics) await this.writeOne(`count ${one.metric}`, { ...NOTHING, metrics: [one] }, []);
    for (const one of duplicates) await this.writeOne('duplicates', { ...NOTHING, duplicates: [one] }, []);
    for (const one of secrets) await this.writeOne('secret', { ...NOTHING, secrets: [one] }, []);
    for (const one of alerts) await this.writeOne(`alert ${one.kind}`, NOTHING, [one]);
  }

  private async writeOne(what: string, counted: Counted, alerts: readonly KeptAlert[]): Promise<void> {
    try {
      await this.write(counted, alerts);
    } catch (error) {
      if (!isRefusedContent(error)) return this.keepUnwritten(counted, alerts);
      this.logger.warn(logLine(`dropped, since it cannot be stored: ${storeErrorText(error)}`, { what }));
    }
  }

  /** Added up again at the next round; duplicates and secrets are notes that may be missed. */
  private keepUnwritten(counted: Counted, alerts: readonly KeptAlert[]): void {
    this.unwritten.giveBack(counted);
    this.alerts = [...alerts, ...this.alerts].slice(-MAX_ALERTS);
  }

  /** Each dead letter has its own row to be found by; its alert is not kept beside it. */
  private keep(alert: Alert): void {
    if (alert.kind === 'dead-letter' || this.alerts.length >= MAX_ALERTS) return;
    const { kind, ...facts } = alert;
    this.alerts.push({ at: new Date(), kind, subject: subjectOf(alert), facts });
  }
}

function subjectOf(alert: Alert): string {
  if ('event' in alert && alert.event !== undefined) return `${alert.event.source} ${alert.event.eventId}`;
  if ('source' in alert) return alert.source;
  return 'name' in alert ? alert.name : '';
}
