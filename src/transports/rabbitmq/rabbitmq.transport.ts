import type { ConsumeMessage, Options } from 'amqplib';
import { z } from 'zod';
import { ConfigurationError } from '../../core/errors.js';
import { check } from '../../core/options/schema.js';
import { sleep, withTimeLimit } from '../../core/time/waits.js';
import type {
  EffectMessage,
  EffectReport,
  EffectTransport,
  EngineDelivery,
  Subscription,
  Verdict,
} from '../effect-transport.js';
import { headOf, messageOf, reportOf } from '../envelope.js';
import { Runs } from '../runs.js';
import { asError, rethrow, Trouble } from '../trouble.js';
import { Link, type RabbitmqConnection } from './link.js';
import { assertQueue, assertWait, waitOf } from './queues.js';

export interface RabbitmqOptions extends RabbitmqConnection {
  /** First part of the names of queues and exchanges. @default 'webhook-inbox' */
  readonly name?: string;
}

const schema = z.strictObject({
  connection: z.union([z.string(), z.looseObject({})]),
  socket: z.looseObject({}).optional(),
  name: z
    .string()
    .regex(/^[\w.-]{1,100}$/, { error: `expected letters, digits, '.', '_' and '-'` })
    .optional(),
});

const HEAD = 'webhook-inbox';
/** Attempts before the message was published last. */
const BEFORE = 'webhook-inbox-attempts';
/** Seconds that it has to wait still, before it comes to a handler. */
const REST = 'webhook-inbox-rest';
/** Counted by a quorum queue itself. */
const RETURNED = 'x-delivery-count';
const CONFIRM_MS = 10_000;
const RETRY_MS = 1_000;
const REPORTS_AT_ONCE = 10;

/**
 * Hands effects to RabbitMQ, from 3.10 on: a quorum queue for each effect, and one for reports. Each message is confirmed by the broker,
 * and acknowledged after its run. RabbitMQ refuses no duplicates: the consumer does, by the outbox id.
 */
export function rabbitmq(options: RabbitmqOptions): EffectTransport {
  check(schema, options, 'rabbitmq()');
  return new RabbitmqTransport(options);
}

class RabbitmqTransport implements EffectTransport {
  readonly name = 'rabbitmq';
  readonly keepsOrder = false;
  private readonly trouble = new Trouble(this.name);
  private readonly base: string;
  /** Of publishers. Each subscription has one of its own: RabbitMQ stops connections that publish when it is short of memory. */
  private link?: Promise<Link>;
  private isClosed = false;

  constructor(private readonly options: RabbitmqOptions) {
    this.base = options.name ?? 'webhook-inbox';
  }

  publish(messages: readonly EffectMessage[]): Promise<readonly (Error | undefined)[]> {
    if (messages.length === 0) return Promise.resolve([]);
    return this.confirmed((link) =>
      Promise.all(messages.map((message) => this.publishOne(link, message).then(() => undefined, asError))),
    ).catch(rethrow);
  }

  async report(report: EffectReport): Promise<void> {
    const queue = this.reports();
    await this.confirmed(async (link) => {
      await link.declare(queue, (channel) => assertQueue(channel, queue));
      await link.send('', queue, Buffer.from(JSON.stringify(report)), { messageId: report.id });
    });
  }

  consume(
    effects: readonly string[],
    handle: (message: EffectMessage, delivery: EngineDelivery) => Promise<Verdict>,
    { concurrency }: { readonly concurrency: number },
  ): Promise<Subscription> {
    const queues = effects.map((effect) => this.queueOf(effect));
    return this.subscribe(queues, concurrency, (message, signal) =>
      handle(messageOf(String(message.properties.headers?.[HEAD]), message.content), {
        attempt: attemptOf(message),
        signal,
      }),
    );
  }

  onReports(handle: (report: EffectReport) => Promise<void>): Promise<Subscription> {
    return this.subscribe([this.reports()], REPORTS_AT_ONCE, async ({ content }) => {
      await handle(reportOf(content));
      return { kind: 'ack' };
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const link = await this.link?.catch(() => undefined);
    await link?.close();
  }

  private queueOf(effect: string): string {
    return `${this.base}.effects.${effect}`;
  }

  private reports(): string {
    return `${this.base}.reports`;
  }

  private async publishOne(link: Link, message: EffectMessage): Promise<void> {
    const queue = this.queueOf(message.effect);
    await link.declare(queue, (channel) => assertQueue(channel, queue));
    await link.send('', queue, Buffer.from(message.payload), {
      messageId: message.messageId,
      headers: { [HEAD]: headOf(message) },
    });
  }

  /** Work of a publisher. A connection on which no answer comes is given up: the fate of its messages is unknown. */
  private async confirmed<T>(work: (link: Link) => Promise<T>): Promise<T> {
    const opened = this.open();
    try {
      return await withTimeLimit(opened.then(work), CONFIRM_MS, 'an answer of RabbitMQ');
    } catch (error) {
      void opened.then((link) => link.close()).catch(() => undefined);
      if (this.link === opened) this.link = undefined;
      throw error;
    }
  }

  private open(): Promise<Link> {
    if (this.isClosed) return Promise.reject(new Error('the transport is closed'));
    if (this.link !== undefined) return this.link;
    const opened = Link.open(this.options);
    const forget = () => {
      if (this.link === opened) this.link = undefined;
    };
    void opened.then(({ ended }) => ended).then(forget, forget);
    return (this.link = opened);
  }

  private async subscribe(queues: readonly string[], concurrency: number, work: Work): Promise<Subscription> {
    const runs = new Runs(concurrency, this.trouble.tell);
    const reading: Reading = { queues, runs, work };
    let begun = await this.read(reading).catch((error: unknown) => {
      if (error instanceof ConfigurationError) throw error;
      return this.tried(error);
    });
    void this.keepReading(reading, begun, (link) => (begun = link));
    return {
      close: async (graceMs) => {
        await runs.close(graceMs);
        await begun?.close();
      },
    };
  }

  private readonly tried = (error: unknown): undefined => {
    this.trouble.tell(error);
    return undefined;
  };

  /** Reads again after each end of the connection, until the subscription closes. */
  private async keepReading(
    reading: Reading,
    first: Link | undefined,
    tell: (link: Link) => void,
  ): Promise<void> {
    const { closed } = reading.runs;
    for (let link = first; ;) {
      await link?.ended;
      reading.runs.abort(
        new Error('the connection is lost: the engine gives the message to another consumer'),
      );
      await sleep(RETRY_MS, closed);
      if (closed.aborted) return;
      link = await this.read(reading).catch(this.tried);
      if (link !== undefined) tell(link);
      // It closed while the connection was made.
      if (closed.aborted) await link?.close();
    }
  }

  private async read({ queues, runs, work }: Reading): Promise<Link> {
    const link = await Link.open(this.options);
    try {
      await link.channel.prefetch(runs.concurrency);
      const take = (queue: string) => (message: ConsumeMessage | null) => {
        // The queue was deleted.
        if (message === null) void link.close();
        else this.take(link, queue, message, runs, work);
      };
      await Promise.all(queues.map((queue) => link.declare(queue, (channel) => assertQueue(channel, queue))));
      const tags: string[] = [];
      for (const queue of queues) tags.push((await link.channel.consume(queue, take(queue))).consumerTag);
      // Messages that are given back while the last runs end are for others.
      const stop = () => void Promise.all(tags.map((tag) => link.channel.cancel(tag))).catch(() => undefined);
      runs.closed.addEventListener('abort', stop, { once: true });
      void link.ended.then(() => runs.closed.removeEventListener('abort', stop));
      this.trouble.over();
      return link;
    } catch (error) {
      await link.close();
      throw error;
    }
  }

  private take(link: Link, queue: string, message: ConsumeMessage, runs: Runs, work: Work): void {
    const rest = Number(message.properties.headers?.[REST] ?? 0);
    const settle = (verdict: Verdict) => this.settle(link, queue, message, verdict);
    if (rest > 0) void settle({ kind: 'again', delayMs: rest * 1_000 }).catch(this.trouble.tell);
    else runs.begin((signal) => work(message, signal), settle);
  }

  /** A message that must come later is published once more, and acknowledged when the broker has that one. */
  private async settle(link: Link, queue: string, message: ConsumeMessage, verdict: Verdict): Promise<void> {
    let isOver = verdict.kind === 'ack';
    if (verdict.kind === 'again' && verdict.delayMs > 0)
      isOver = await this.postpone(queue, message, verdict.delayMs);
    if (!link.isOpen) return;
    if (isOver) link.channel.ack(message);
    else link.channel.nack(message);
  }

  private async postpone(queue: string, message: ConsumeMessage, delayMs: number): Promise<boolean> {
    const { content, properties } = message;
    const given: Record<string, unknown> = properties.headers ?? {};
    const isHop = Number(given[REST] ?? 0) > 0;
    const { seconds, restS } = waitOf(delayMs / 1_000);
    const exchange = `${this.base}.wait.${seconds}s`;
    const options: Options.Publish = {
      messageId: properties.messageId as string,
      headers: {
        [HEAD]: given[HEAD],
        [BEFORE]: isHop ? Number(given[BEFORE] ?? 0) : attemptOf(message),
        [REST]: restS,
      },
    };
    try {
      await this.confirmed(async (link) => {
        await link.declare(exchange, (channel) => assertWait(channel, exchange, seconds));
        await link.send(exchange, queue, content, options);
      });
      return true;
    } catch (error) {
      this.trouble.tell(error);
      await sleep(RETRY_MS);
      return false;
    }
  }
}

type Work = (message: ConsumeMessage, signal: AbortSignal) => Promise<Verdict>;

interface Reading {
  readonly queues: readonly string[];
  readonly runs: Runs;
  readonly work: Work;
}

function attemptOf({ properties: { headers } }: ConsumeMessage): number {
  return Number(headers?.[BEFORE] ?? 0) + Number(headers?.[RETURNED] ?? 0) + 1;
}
