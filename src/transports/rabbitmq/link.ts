import amqp, {
  type Channel,
  type ChannelModel,
  type ConfirmChannel,
  type Options,
  type SocketOptions,
} from 'amqplib';
import { ConfigurationError } from '../../core/errors.js';
import { endsWithin, sleep } from '../../core/time/waits.js';

export interface RabbitmqConnection {
  /** As `connect` of `amqplib` takes it: a URL, or its parts. */
  readonly connection: string | Options.Connect;
  /** TLS and other options of the socket, as `connect` of `amqplib` takes them. */
  readonly socket?: SocketOptions;
}

const CONNECT_MS = 5_000;
const CLOSE_MS = 5_000;
const NAMED_MS = 2_000;
/** Seconds. RabbitMQ's own 60 would leave a connection that is dead unnoticed for two minutes. */
const HEARTBEAT_S = 10;
/** AMQP's code for a declaration that differs from the one at the broker. */
const PRECONDITION_FAILED = 406;

/** A connection with a channel that confirms. It ends as a whole: a channel that the broker closes takes the connection with it. */
export class Link {
  private readonly returned = new Set<unknown>();
  private readonly declared = new Map<string, Promise<void>>();
  private sent = 0;
  private blocked?: string;
  private end = () => undefined as void;
  isOpen = true;
  /** Resolves when the connection or its channel has ended. */
  readonly ended = new Promise<void>((resolve) => (this.end = resolve));

  private constructor(
    private readonly model: ChannelModel,
    readonly channel: ConfirmChannel,
  ) {
    channel.on('return', ({ properties }) => void this.returned.add(properties.correlationId));
    channel.on('close', () => void this.close());
    model.on('close', () => void this.close());
    model.on('blocked', (reason) => (this.blocked = reason));
    model.on('unblocked', () => (this.blocked = undefined));
  }

  static async open({ connection, socket }: RabbitmqConnection): Promise<Link> {
    const model = await amqp.connect(withHeartbeat(connection), {
      timeout: CONNECT_MS,
      noDelay: true,
      clientProperties: { connection_name: 'nestjs-webhook-inbox' },
      ...socket,
    });
    // Each error has its 'close', and without a listener it would end the process.
    model.on('error', () => undefined);
    try {
      const channel = await model.createConfirmChannel();
      channel.on('error', () => undefined);
      return new Link(model, channel);
    } catch (error) {
      await model.close().catch(() => undefined);
      throw error;
    }
  }

  /**
   * Resolves when the broker has stored the message in a queue.
   * @throws Error when it refuses it, or no queue takes it
   */
  send(exchange: string, key: string, body: Buffer, options: Options.Publish): Promise<void> {
    if (this.blocked !== undefined) throw new Error(`RabbitMQ takes no messages: ${this.blocked}`);
    const correlationId = String((this.sent += 1));
    return new Promise((resolve, reject) => {
      const all = { ...options, correlationId, persistent: true, mandatory: true };
      this.channel.publish(exchange, key, body, all, (error: Error | null) => {
        if (this.returned.delete(correlationId)) reject(new Error(`no queue takes '${key}'`));
        else if (error === null) resolve();
        else reject(error);
      });
    });
  }

  /**
   * Declares a queue, with what belongs to it, once.
   * @throws ConfigurationError when it is there, and differs
   */
  declare(queue: string, work: (channel: Channel) => Promise<unknown>): Promise<void> {
    const known = this.declared.get(queue);
    if (known !== undefined) return known;
    const made = this.declareNow(queue, work);
    this.declared.set(queue, made);
    made.catch(() => this.declared.delete(queue));
    return made;
  }

  async close(): Promise<void> {
    if (!this.isOpen) return;
    this.isOpen = false;
    // The end of the connection would overtake acknowledgements of the channel. A broker that is frozen answers neither.
    const closing = this.channel
      .close()
      .catch(() => undefined)
      .then(() => this.model.close());
    await endsWithin(closing, CLOSE_MS).catch(() => undefined);
    this.end();
  }

  private async declareNow(queue: string, work: (channel: Channel) => Promise<unknown>): Promise<void> {
    const isThere = await this.on((channel) => channel.checkQueue(queue)).then(
      () => true,
      () => false,
    );
    await this.on(work).catch(refuse(queue));
    // RabbitMQ writes the name of a new quorum queue to the disk a second later. A broker that is killed before has lost the queue.
    if (!isThere) await sleep(NAMED_MS);
  }

  /** On a channel of its own, which a refusal closes. */
  private async on(work: (channel: Channel) => Promise<unknown>): Promise<void> {
    const channel = await this.model.createChannel();
    channel.on('error', () => undefined);
    await work(channel);
    await channel.close();
  }
}

function refuse(queue: string): (error: unknown) => never {
  return (error) => {
    if (Object(error).code !== PRECONDITION_FAILED) throw error;
    throw new ConfigurationError(
      `rabbitmq(): '${queue}' is at the broker, and is declared otherwise; delete it, or give rabbitmq() another name: ${String(error)}`,
      { cause: error },
    );
  };
}

function withHeartbeat(connection: string | Options.Connect): string | Options.Connect {
  if (typeof connection !== 'string') return { heartbeat: HEARTBEAT_S, ...connection };
  const url = new URL(connection);
  if (!url.searchParams.has('heartbeat')) url.searchParams.set('heartbeat', String(HEARTBEAT_S));
  return url.href;
}
