import {
  AckPolicy,
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  RetentionPolicy,
  StorageType,
  type JetStreamManager,
  type StreamConfig,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { ConfigurationError } from '../../core/errors.js';

/** A subject of the stream, behind the stream's name, and the durable consumer that reads it. */
export interface Queue {
  readonly subject: string;
  readonly consumer: string;
}

/** No effect has a '=' in its name. */
export const REPORTS: Queue = { subject: 'reports', consumer: '=reports' };

/** A dot would divide the subject; no effect has a '%' in its name. */
export function effectQueue(effect: string): Queue {
  const token = effect.replaceAll('.', '%');
  return { subject: `effects.${token}`, consumer: token };
}

/** The stream and its consumers at the server: made where they are missing, checked where they are there. */
export class Layout {
  constructor(
    private readonly manager: JetStreamManager,
    private readonly stream: string,
  ) {}

  /** @throws ConfigurationError for a stream that loses messages, or keeps them for ever */
  async ensureStream(replicas: number): Promise<void> {
    const { streams } = this.manager;
    const found = await streams.info(this.stream).catch(missing(JetStreamApiCodes.StreamNotFound));
    const wanted = {
      name: this.stream,
      subjects: [`${this.stream}.effects.*`, `${this.stream}.reports`],
      // A message is deleted when it is acknowledged, so that the stream holds the messages that are owed.
      retention: RetentionPolicy.Workqueue,
      storage: StorageType.File,
      // A stream that is full refuses the new messages, and the relay keeps them.
      discard: DiscardPolicy.New,
      max_age: 0,
    };
    if (found === undefined) await streams.add({ ...wanted, num_replicas: replicas });
    else this.check(found.config, wanted);
  }

  async ensureConsumer({ subject, consumer }: Queue, ackWaitMs: number): Promise<void> {
    const { consumers } = this.manager;
    const found = await consumers
      .info(this.stream, consumer)
      .catch(missing(JetStreamApiCodes.ConsumerNotFound));
    const ack_wait = nanos(ackWaitMs);
    if (found !== undefined && found.config.ack_wait === ack_wait) return;
    const wanted = {
      ack_policy: AckPolicy.Explicit,
      ack_wait,
      // Without limits: the consumers decide, and messages that wait for their next attempt stop no others.
      max_deliver: -1,
      max_ack_pending: -1,
    };
    if (found !== undefined) await consumers.update(this.stream, consumer, wanted);
    else
      await consumers.add(this.stream, {
        ...wanted,
        durable_name: consumer,
        filter_subject: `${this.stream}.${subject}`,
      });
  }

  private check(config: StreamConfig, wanted: Partial<StreamConfig>): void {
    for (const [name, expected] of Object.entries(wanted)) {
      const received: unknown = config[name as keyof StreamConfig];
      if (JSON.stringify(received) !== JSON.stringify(expected))
        throw new ConfigurationError(
          `nats(): stream '${this.stream}': ${name}: expected ${JSON.stringify(expected)}, received ` +
            `${JSON.stringify(received)}; change the stream, or give nats() another name`,
        );
    }
  }
}

function missing(code: number): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof JetStreamApiError && error.code === code) return undefined;
    throw error;
  };
}
