import { Injectable } from '@nestjs/common';
import { InboxLogger, isHeard } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { Throttle } from '../../core/log/throttle.js';
import type { EngineReport } from '../../core/options/effect-transport.js';
import { WebhookLifecycle } from '../../core/telemetry/lifecycle-events.js';
import { measure } from '../../core/telemetry/meters.js';
import { EngineStore, type Reported } from '../../storage/engine/engine.store.js';
import { FailureSettler } from '../runs/failure.settler.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { UnreportedDeaths } from '../runs/unreported-deaths.js';
import { WakeUp } from '../wake/wake-up.js';
import { isReport } from './report-check.js';

/** Settles rows by the reports of their consumers. A report may come twice, late, or of a former life of the row. */
@Injectable()
export class EngineReports {
  private readonly logger = new InboxLogger();
  private readonly throttle = new Throttle();

  constructor(
    private readonly store: EngineStore,
    private readonly statements: LoneStatements,
    private readonly failures: FailureSettler,
    private readonly unreported: UnreportedDeaths,
    private readonly lifecycle: WebhookLifecycle,
    private readonly wakeUp: WakeUp,
  ) {}

  /** @throws when the report must come again: the database is down, or the row's hand-over is not recorded yet */
  async record(report: EngineReport): Promise<void> {
    if (!isReport(report))
      return this.passOver('malformed', 'a report of an engine has not the fields of one');
    const { id, effect, outcome } = report;
    const isDead = outcome === 'dead';
    if (isDead) this.unreported.recordDead(id);
    const found = await this.statements.send((manager) =>
      this.unreported.track(() => this.store.report(manager, report)),
    );
    if (found === undefined) return this.passOver('unknown', 'an engine reported an effect that is not here');
    if (!found.settled) {
      if (isDead && found.state === 'pending' && found.leased)
        throw new Error(`the hand-over of effect '${effect}' is not recorded yet`);
      return count('known', found.name);
    }
    count(outcome, found.name);
    if (isDead) this.tellDead(report, found);
    else this.tellDone(report, found);
    // It may have had the turn of its key, or held it.
    if (found.ordered) this.wakeUp.wake();
  }

  private tellDone(report: EngineReport, { name, attempt, event }: Reported): void {
    this.lifecycle.emit('effectDone', () => ({ outboxId: report.id, name, attempt, event }));
    if (isHeard('log')) this.logger.log(logLine('effect done by a consumer', reportFacts(report, event)));
  }

  private tellDead(report: EngineReport, { name, attempt, event }: Reported): void {
    const { id, error, reason = 'permanent-error' } = report;
    this.logger.warn(logLine(`effect dead at a consumer: ${errorText(error)}`, reportFacts(report, event)));
    this.failures.reportExhausted([{ id, name, attempt, reason, error, event }]);
  }

  private passOver(what: string, text: string): void {
    count(what);
    const admitted = this.throttle.admit(what);
    if (admitted !== undefined) this.logger.warn(logLine(text, admitted));
  }
}

function count(result: string, name?: string): void {
  measure('webhook_inbox.reports', 1, { result, name });
}

function reportFacts({ id, effect, attempts, host, place }: EngineReport, event: Reported['event']) {
  const { source, tenant, eventId } = event ?? {};
  return { source, tenant, event: eventId, outbox: id, name: effect, attempts, host, at: place };
}
