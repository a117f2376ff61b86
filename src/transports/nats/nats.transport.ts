import { jetstream, type Consumer, type JetStreamClient, type JsMsg } from '@nats-io/jetstream';
import {
  connect,
  headers,
  InvalidArgumentError,
  type ConnectionOptions,
  type NatsConnection,
} from '@nats-io/transport-node';
import { z } from 'zod';
import { toMs, type Duration } from '../../core/options/duration.js';
import { atLeast, check, count } from '../../core/options/schema.js';
import { ConfigurationError, PermanentError } from '../../core/errors.js';
import { endsWithin, sleep } from '../../core/time/waits.js';
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
import { effectQueue, Layout, REPORTS, type Queue } from './layout.js';

export interface NatsOptions {
  /** As `connect` of `@nats-io/transport-node` takes them. The connection is made again without end. */
  readonly connection: ConnectionOptions;
  /** Of the stream, and the first part of its subjects. @default 'webhook-inbox' */
  readonly name?: string;
  /** Copies of the stream in a cluster. Only for a stream that the transport makes. @default 1 */
  readonly replicas?: number;
  /** So long after a consumer's last sign of life, its messages go to another one. At least 2 s. @default '30s' */
  readonly ackWait?: Duration;
}

const schema = z.strictObject({
  connection: z.looseObject({}),
  name: z
    .string()
    .regex(/^[\w-]{1,100}$/, { error: `expected letters, digits, '_' and '-'` })
    .optional(),
  replicas: count.max(5).optional(),
  ackWait: atLeast(2_000).optional(),
});

const HEAD = 'Webhook-Inbox';
/** Waits for the answer to one request. */
const ANSWER_MS = 5_000;
const PULL_MS = 10_000;
const RETRY_MS = 1_000;
/** Of `ackWait`: a sign of life each third. Without an answer for so long, the next consumer may have the message soon. */
const BEAT = 1 / 3;
const SILENT = 0.6;
const REPORTS_AT_ONCE = 10;

/**
 * Hands effects to NATS JetStream, from server 2.9 on. One stream has the messages, on files; a message is deleted when its consumer has
 * acknowledged it. `Nats-Msg-Id` is the outbox id, so that the stream refuses duplicates for two minutes.
 *
 * By default, a server of one node writes to the disk each two minutes: set `sync_interval: always`, or use three replicas, where messages
 * have to outlive a power failure.
 */
export function nats(options: NatsOptions): EffectTransport {
  check(schema, options, 'nats()');
  return new NatsTransport(options);
}

interface Link {
  readonly connection: NatsConnection;
  readonly js: JetStreamClient;
  readonly layout: Layout;
  isUp: boolean;
  /** Whether the stream is as it must be, as far as is known. */
  isChecked: boolean;
}

/** A message that a consumer has not settled. */
interface Held {
  readonly message: JsMsg;
  readonly abort: (reason: Error) => void;
  /** By `performance.now()`: the server heard of it later than that. */
  aliveAt: number;
}

class NatsTransport implements EffectTransport {
  readonly name = 'nats';
  readonly keepsOrder = false;
  private readonly trouble = new Trouble(this.name);
  private readonly stream: string;
  private readonly ackWaitMs: number;
  private link?: Promise<Link>;
  private isClosed = false;

  constructor(private readonly options: NatsOptions) {
    this.stream = options.name ?? 'webhook-inbox';
    this.ackWaitMs = toMs(options.ackWait ?? '30s')!;
  }

  async publish(messages: readonly EffectMessage[]): Promise<readonly (Error | undefined)[]> {
    if (messages.length === 0) return [];
    const link = await this.open().catch(rethrow);
    return Promise.all(
      messages.map((message) => {
        const head = headers();
        head.set(HEAD, headOf(message));
        const { subject } = effectQueue(message.effect);
        return this.send(link, subject, message.payload, { headers: head, msgID: message.messageId }).then(
          () => undefined,
          asError,
        );
      }),
    );
  }

  async report(report: EffectReport): Promise<void> {
    await this.send(await this.open(), REPORTS.subject, JSON.stringify(report));
  }

  consume(
    effects: readonly string[],
    handle: (message: EffectMessage, delivery: EngineDelivery) => Promise<Verdict>,
    { concurrency }: { readonly concurrency: number },
  ): Promise<Subscription> {
    return this.subscribe(effects.map(effectQueue), concurrency, ({ headers: head, data, info }, signal) =>
      handle(messageOf(head!.get(HEAD), data), { attempt: info.deliveryCount, signal }),
    );
  }

  onReports(handle: (report: EffectReport) => Promise<void>): Promise<Subscription> {
    return this.subscribe([REPORTS], REPORTS_AT_ONCE, async ({ data }) => {
      await handle(reportOf(data));
      return { kind: 'ack' };
    });
  }

  async close(): Promise<void> {
    this.isClosed = true;
    const link = await this.link?.catch(() => undefined);
    await link?.connection.close();
  }

  private async send(
    link: Link,
    subject: string,
    payload: string,
    options: { headers?: ReturnType<typeof headers>; msgID?: string } = {},
  ): Promise<void> {
    try {
      await link.js.publish(`${this.stream}.${subject}`, payload, { ...options, timeout: ANSWER_MS });
    } catch (error) {
      if (error instanceof InvalidArgumentError)
        throw new PermanentError(
          `NATS takes no message of this size: raise its max_payload, or send less: ${error.message}`,
        );
      // The stream may be gone.
      link.isChecked = false;
      throw error;
    }
  }

  /** @throws at once while the connection is lost: messages published meanwhile would stay in memory */
  private async open(): Promise<Link> {
    if (this.isClosed) throw new Error('the transport is closed');
    this.link ??= this.connect();
    const link = await this.link.catch((error: unknown) => {
      this.link = undefined;
      throw error;
    });
    if (!link.isUp) throw new Error('the connection to NATS is lost');
    if (!link.isChecked) await link.layout.ensureStream(this.options.replicas ?? 1);
    link.isChecked = true;
    return link;
  }

  private async connect(): Promise<Link> {
    const connection = await connect({
      name: this.stream,
      timeout: ANSWER_MS,
      pingInterval: 5_000,
      reconnectTimeWait: 500,
      noAsyncTraces: true,
      ...this.options.connection,
      maxReconnectAttempts: -1,
    });
    const js = jetstream(connection, { timeout: ANSWER_MS });
    const layout = new Layout(await js.jetstreamManager(false), this.stream);
    const link: Link = { connection, js, layout, isUp: true, isChecked: false };
    void this.watch(link);
    return link;
  }

  /** A connection that was refused ends for good, in spite of its options. */
  private async watch(link: Link): Promise<void> {
    for await (const { type } of link.connection.status()) {
      if (type === 'disconnect') link.isUp = false;
      if (type === 'reconnect') Object.assign(link, { isUp: true, isChecked: false });
    }
    this.link = undefined;
  }

  private async subscribe(
    queues: readonly Queue[],
    concurrency: number,
    work: (message: JsMsg, signal: AbortSignal) => Promise<Verdict>,
  ): Promise<Subscription> {
    await this.open().catch((error: unknown) => {
      if (error instanceof ConfigurationError) throw error;
      this.trouble.tell(error);
    });
    const runs = new Runs(concurrency, this.trouble.tell);
    const held = new Set<Held>();
    const hold = (message: JsMsg) => {
      const abort = runs.begin(
        (signal) => work(message, signal),
        (verdict) => {
          held.delete(one);
          if (verdict.kind === 'ack') message.ack();
          else message.nak(verdict.delayMs);
        },
      );
      const one: Held = { message, abort, aliveAt: performance.now() };
      held.add(one);
    };
    for (const queue of queues) void this.pull(queue, runs, hold);
    const beat = setInterval(() => void this.beat(held), this.ackWaitMs * BEAT);
    return {
      close: async (graceMs) => {
        await runs.close(graceMs);
        clearInterval(beat);
        const link = await this.link?.catch(() => undefined);
        // The last acknowledgements are on their way.
        if (link?.isUp === true)
          await endsWithin(
            link.connection.flush().catch(() => undefined),
            ANSWER_MS,
          );
      },
    };
  }

  /** Asks for as many messages as there are free slots, again and again, until the subscription closes. */
  private async pull(queue: Queue, runs: Runs, hold: (message: JsMsg) => void): Promise<void> {
    while (!runs.closed.aborted && !this.isClosed) {
      try {
        const { js, layout } = await this.open();
        await layout.ensureConsumer(queue, this.ackWaitMs);
        const consumer = await js.consumers.get(this.stream, queue.consumer);
        this.trouble.over();
        while (!runs.closed.aborted) await take(consumer, runs, hold);
      } catch (error) {
        if (!this.isClosed) this.trouble.tell(error);
        await sleep(RETRY_MS, runs.closed);
      }
    }
  }

  /** Tells the server that these messages are worked on. A server that is not reached gives them to others. */
  private async beat(held: ReadonlySet<Held>): Promise<void> {
    const now = performance.now();
    for (const { aliveAt, abort } of held)
      if (now - aliveAt > this.ackWaitMs * SILENT)
        abort(new Error('the engine may give the message to another consumer'));
    const told = [...held];
    try {
      const link = await this.open();
      for (const { message } of told) message.working();
      await link.connection.flush();
      for (const one of told) one.aliveAt = now;
    } catch {
      // The next beat finds the old time.
    }
  }
}

async function take(consumer: Consumer, runs: Runs, hold: (message: JsMsg) => void): Promise<void> {
  const pulled = await consumer.fetch({ max_messages: runs.room, expires: PULL_MS });
  const stop = () => void pulled.close();
  runs.closed.addEventListener('abort', stop, { once: true });
  try {
    if (runs.closed.aborted) stop();
    for await (const message of pulled) hold(message);
  } finally {
    runs.closed.removeEventListener('abort', stop);
  }
}
