import { DelayedError, Queue, Worker, type ConnectionOptions, type Job } from 'bullmq';
import { toMs, type Duration } from '../../core/options/duration.js';
import type {
  EffectMessage,
  EngineReport,
  EffectTransport,
  EngineDelivery,
  Subscription,
  EngineVerdict,
} from '../../core/options/effect-transport.js';
import { endsWithin, withTimeLimit } from '../../core/time/waits.js';
import { Runs } from '../runs.js';
import { asError, rethrow, Trouble } from '../trouble.js';

/** Options of `bullmq()`. */
export interface BullmqOptions {
  /** As BullMQ and `@nestjs/bullmq` take it: settings, or a connection of ioredis, which stays open when the application ends. */
  readonly connection: ConnectionOptions;
  /** Of the keys in Redis, as BullMQ's own option. @default 'bull' */
  readonly prefix?: string;
  /** The queues are `<name>-effect-<effect>` and `<name>-reports`. @default 'webhook-inbox' */
  readonly name?: string;
  /** How long a job of a consumer that has died waits for another one. @default '30s' */
  readonly lock?: Duration;
}

/** A job has no limit of attempts and of stalls: the consumer decides. BullMQ would drop it. */
const WITHOUT_LIMIT = 2 ** 31 - 1;
const AGAIN_MS = 1_000;
/** BullMQ waits without end for a connection that it has had before. */
const ANSWER_MS = 10_000;
/** A connection that owes an answer for so long is given up. A worker's blocking command lasts 10 s. */
const SILENT_MS = 15_000;
const READY_MS = 1_000;
const CLOSE_MS = 6_000;
const REPORTS_AT_ONCE = 20;
const JOB = {
  attempts: WITHOUT_LIMIT,
  backoff: { type: 'fixed', delay: AGAIN_MS },
  // Its id is free again: a row that comes back is a job again.
  removeOnComplete: true,
  removeOnFail: true,
} as const;

type Handle<T> = (data: T, delivery: EngineDelivery) => Promise<EngineVerdict>;

/**
 * Effects through BullMQ on Redis. A job's id is the message's, so that BullMQ refuses a second copy for as long as it has the first. Have
 * Redis write each command down (`appendfsync always`, or a second of loss) and evict nothing (`maxmemory-policy noeviction`).
 */
export function bullmq(options: BullmqOptions): EffectTransport {
  return new BullmqTransport(options);
}

class BullmqTransport implements EffectTransport {
  readonly name = 'bullmq';
  readonly keepsOrder = false;
  private readonly trouble = new Trouble(this.name);
  private readonly queues = new Map<string, Queue>();

  constructor(private readonly options: BullmqOptions) {}

  async publish(messages: readonly EffectMessage[]): Promise<readonly (Error | undefined)[]> {
    const byQueue = new Map<string, EffectMessage[]>();
    for (const message of messages) {
      const queue = this.queueOf(message.effect);
      byQueue.set(queue, [...(byQueue.get(queue) ?? []), message]);
    }
    const errors = new Map<EffectMessage, Error>();
    const adding = [...byQueue].map(async ([queue, some]) => {
      const jobs = some.map((message) => ({
        name: message.effect,
        data: message,
        opts: { ...JOB, jobId: message.messageId },
      }));
      try {
        // One transaction of Redis: all or none.
        await answered(this.queue(queue).addBulk(jobs));
      } catch (error) {
        for (const message of some) errors.set(message, asError(error));
      }
    });
    await Promise.all(adding);
    return messages.map((message) => errors.get(message));
  }

  async consume(
    effects: readonly string[],
    handle: (message: EffectMessage, delivery: EngineDelivery) => Promise<EngineVerdict>,
    { concurrency }: { readonly concurrency: number },
  ): Promise<Subscription> {
    const queues = effects.map((effect) => this.queueOf(effect));
    return this.work<EffectMessage>(queues, handle, concurrency);
  }

  async report(report: EngineReport): Promise<void> {
    await answered(this.queue(this.reports).add('report', report, JOB)).catch(rethrow);
  }

  async onReports(handle: (report: EngineReport) => Promise<void>): Promise<Subscription> {
    const settle: Handle<EngineReport> = async (report) => {
      await handle(report);
      return { kind: 'ack' };
    };
    return this.work([this.reports], settle, REPORTS_AT_ONCE);
  }

  async close(): Promise<void> {
    const queues = [...this.queues.values()];
    this.queues.clear();
    // One whose Redis is down cannot take its leave.
    await Promise.all(queues.map((queue) => queue.close().catch(() => queue.disconnect())));
  }

  private get base(): string {
    return this.options.name ?? 'webhook-inbox';
  }

  private get connection(): ConnectionOptions {
    const { connection } = this.options;
    return isConnection(connection) ? connection : { socketTimeout: SILENT_MS, ...connection };
  }

  private get reports(): string {
    return `${this.base}-reports`;
  }

  private queueOf(effect: string): string {
    return `${this.base}-effect-${effect}`;
  }

  private queue(name: string): Queue {
    let queue = this.queues.get(name);
    if (queue === undefined) {
      const { prefix } = this.options;
      const { connection } = this;
      // A command that waits for a connection would be sent after the relay has given it up.
      const failing = isConnection(connection) ? connection : { ...connection, enableOfflineQueue: false };
      queue = new Queue(name, { connection: failing, prefix });
      queue.on('error', this.trouble.tell);
      this.queues.set(name, queue);
    }
    return queue;
  }

  private async work<T>(
    queues: readonly string[],
    handle: Handle<T>,
    concurrency: number,
  ): Promise<Subscription> {
    // A worker that cannot have a connection, for want of a driver, would try again without a pause.
    await Promise.all(queues.map((name) => endsWithin(this.queue(name).waitUntilReady(), READY_MS)));
    const work = new BullmqWork(handle, new Runs(concurrency, this.trouble.tell));
    const lockDuration = toMs(this.options.lock ?? '30s')!;
    const { prefix } = this.options;
    const { connection } = this;
    for (const name of queues) {
      const worker = new Worker<T>(name, (job, token) => work.run(job, token), {
        connection,
        prefix,
        concurrency,
        lockDuration,
        stalledInterval: lockDuration,
        maxStalledCount: WITHOUT_LIMIT,
      });
      worker.on('error', this.trouble.tell);
      worker.on('lockRenewalFailed', (ids) => work.lost(ids));
      work.workers.push(worker);
    }
    return work;
  }
}

/** Runs jobs of several queues, at most so many at once. */
class BullmqWork<T> implements Subscription {
  readonly workers: Worker<T>[] = [];
  private readonly held = new Map<string, (reason: Error) => void>();

  constructor(
    private readonly handle: Handle<T>,
    private readonly runs: Runs,
  ) {}

  run(job: Job<T>, token: string | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const work = (signal: AbortSignal) => this.handle(job.data, { attempt: job.attemptsStarted, signal });
      const settle = async (verdict: EngineVerdict) => {
        this.held.delete(job.id!);
        await settled(job, token, verdict).then(resolve, reject);
      };
      this.held.set(job.id!, this.runs.begin(work, settle));
    });
  }

  /** Redis has given these jobs to other consumers, or will. */
  lost(ids: readonly string[]): void {
    for (const id of ids) this.held.get(id)?.(new Error('the lock of the job was lost'));
  }

  async close(graceMs: number): Promise<void> {
    const closing = Promise.all([this.runs.close(graceMs), ...this.workers.map((worker) => worker.close())]);
    if (await endsWithin(closing, graceMs + CLOSE_MS)) return;
    await endsWithin(Promise.all(this.workers.map((worker) => worker.close(true))), CLOSE_MS);
  }
}

const answered = <T>(work: Promise<T>) => withTimeLimit(work, ANSWER_MS, 'Redis');

/** @throws DelayedError, as BullMQ asks for it where a job was delayed */
async function settled(job: Job, token: string | undefined, verdict: EngineVerdict): Promise<void> {
  if (verdict.kind === 'ack') return;
  await job.moveToDelayed(Date.now() + verdict.delayMs, token);
  throw new DelayedError();
}

function isConnection(connection: ConnectionOptions): boolean {
  return typeof (connection as { readonly duplicate?: unknown }).duplicate === 'function';
}
