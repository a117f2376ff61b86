import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Alerts } from '../core/alerts.js';
import { PermanentError, WebhookInboxError } from '../core/errors.js';
import type { WebhookEvent } from '../core/event.js';
import { logLine } from '../core/log.js';
import { parsePayload } from '../core/payload.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import type { Source } from '../core/resolve-source.js';
import { Tally } from '../core/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import type { HandlerContext } from '../handlers/context.js';
import { HandlerRegistry, type Handler } from '../handlers/handler.registry.js';
import { OutboxStore, type LeasedRow, type StoredEvent } from '../storage/outbox.store.js';
import { NotCommitted, UserTransaction } from '../storage/user.transaction.js';
import type { Deadline } from './deadline.js';
import { FailureSettler, type FailurePolicy, type RunOutcome } from './failure.settler.js';
import { Outbox } from './outbox.js';
import { resultSummary } from './result.js';
import { rowFacts } from './row-facts.js';
import { RunEnqueue } from './run.enqueue.js';
import { WakeUp } from './wake-up.js';

/** The lease ended before the settle: another process may be at it, so that this run is rolled back. */
export class LeaseLost extends WebhookInboxError {
  constructor() {
    super('LEASE_LOST', 'the lease ended before the run did');
  }
}

/** The code of one handler run: a method with `@OnWebhook`, or a route with `@UseWebhook`. */
export type HandlerCode = (event: WebhookEvent, context: HandlerContext) => unknown;

/** Runs a leased handler row: the user's method and the fenced settle in one transaction. */
@Injectable()
export class HandlerRunner {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly failures: FailureSettler,
    private readonly outbox: Outbox,
    private readonly wakeUp: WakeUp,
    private readonly alerts: Alerts,
    private readonly tally: Tally,
  ) {}

  /**
   * @param awaitRedelivery the source, when its provider's redelivery is to repeat a failed run
   * @throws only when the failure could not be recorded: the database is unusable and the lease will end by itself
   */
  async run(
    row: LeasedRow,
    deadline: Deadline,
    timeoutMs: number,
    awaitRedelivery?: Source,
  ): Promise<RunOutcome> {
    const handler = this.registry.handler(row.name)!;
    const policy = this.policy(handler, awaitRedelivery);
    try {
      const enqueue = await this.transaction(row, timeoutMs, async (transaction) =>
        this.within(transaction, row, (event, context) => handler.invoke(event, context), deadline.signal),
      );
      if (enqueue.enqueued) this.wakeUp.wake();
      this.logger.log(logLine('handled', rowFacts(row)));
      return 'done';
    } catch (error) {
      if (
        error instanceof NotCommitted &&
        error.inDoubt &&
        (await this.store.isDone(this.dataSource.manager, row))
      ) {
        this.wakeUp.wake();
        return 'done';
      }
      return await this.failures.settle(this.dataSource.manager, row, error, policy);
    }
  }

  policy(work: Pick<Handler, 'retry' | 'classify' | 'source'>, awaitRedelivery?: Source): FailurePolicy {
    const source = this.options.sources.get(work.source);
    return { retry: work.retry, classifiers: [work.classify, source?.classify], awaitRedelivery };
  }

  transaction<T>(
    row: Pick<LeasedRow, 'name'>,
    timeoutMs: number,
    work: (transaction: UserTransaction) => Promise<T>,
  ): Promise<T> {
    const onMisuse = (detail: string) =>
      this.alerts.raise({ kind: 'manager-misused', name: row.name, detail });
    return UserTransaction.run(this.dataSource, { timeoutMs, onMisuse }, work);
  }

  /**
   * Runs the code and settles its row, inside a transaction that the caller commits.
   * @throws what the code threw; LeaseLost when the fence refused the settle
   */
  async within(
    transaction: UserTransaction,
    row: LeasedRow,
    code: HandlerCode,
    signal: AbortSignal,
  ): Promise<RunEnqueue> {
    const { manager, queryRunner } = transaction;
    const event = this.event(row);
    const run = new RunEnqueue(this.store, this.registry, manager, row.id, row.event);
    this.outbox.bind(queryRunner, run.enqueue);
    const { attempt, id: outboxId } = row;
    const context = { manager, enqueue: run.enqueue, signal, attempt, outboxId };
    const result = await transaction.asUser(() => code(event, context), signal);
    const settled = await transaction.asOurs((ours) => this.store.settle(ours, row, resultSummary(result)));
    if (!settled) throw new LeaseLost();
    this.tally.add(event.source, 'handled');
    return run;
  }

  private event(row: LeasedRow): WebhookEvent {
    const { body, ...stored }: StoredEvent = row.event!;
    if (body === null) throw new PermanentError('the body was removed, by retention or by a person');
    const contentType = stored.headers['content-type'];
    const provider = this.options.sources.get(stored.source)?.provider;
    const payload = provider?.parse ? provider.parse(body, contentType) : parsePayload(body, contentType);
    return { ...stored, rawBody: body, payload };
  }
}
