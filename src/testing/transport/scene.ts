import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type {
  EffectMessage,
  EffectReport,
  EffectTransport,
  EngineDelivery,
  Subscription,
  Verdict,
} from '../../transports/effect-transport.js';
import { withTimeLimit } from '../../core/time/waits.js';

/** The engine under test. */
export interface TransportBench {
  /** A new transport, as an application has it. Each check closes those that it made. */
  create(): EffectTransport;
  /** The engine's server. Without it, the checks about faults are left out. */
  readonly engine?: {
    /** Ends it at once, as SIGKILL does, without its data. */
    kill(): Promise<void>;
    /** Starts it again, with its data, at the same address. */
    start(): Promise<void>;
  };
  /** A message that this engine refuses. Without it, the check about one error among others is left out. */
  refused?(effect: string): Promise<EffectMessage>;
}

/** Of one promise. */
export type Check = (scene: Scene, bench: TransportBench) => Promise<void>;

/** Time for an engine to notice a broken connection, and to give a message to another consumer. */
export const PATIENCE_MS = 60_000;

export const ACK: Verdict = { kind: 'ack' };

/** A message that has come to a consumer. */
export interface Arrival {
  readonly message: EffectMessage;
  readonly delivery: EngineDelivery;
  /** By `performance.now()`. */
  readonly at: number;
}

type Answer = (arrival: Arrival, nth: number) => Verdict | Promise<Verdict>;

/** The means of one check of the contract: transports of its own, and effects that no other check has. */
export class Scene {
  private readonly transports: EffectTransport[] = [];
  private readonly subscriptions: Subscription[] = [];
  readonly effect = `check-${randomUUID()}`;

  constructor(private readonly create: () => EffectTransport) {}

  transport(): EffectTransport {
    const transport = this.create();
    this.transports.push(transport);
    return transport;
  }

  message(given: Partial<EffectMessage> = {}): EffectMessage {
    const id = randomUUID();
    return { id, messageId: id, life: 0, effect: this.effect, payload: '{"n":1}', ...given };
  }

  messages(count: number): EffectMessage[] {
    return Array.from({ length: count }, () => this.message());
  }

  /** Publishes, and expects that each message is confirmed. */
  async publish(transport: EffectTransport, ...messages: EffectMessage[]): Promise<void> {
    const told = await transport.publish(messages);
    expectEqual(
      told,
      messages.map(() => undefined),
      'an answer without an error for each message',
    );
  }

  /** Publishes again and again, as the relay does, until each message is confirmed. */
  async publishAtLast(transport: EffectTransport, ...messages: EffectMessage[]): Promise<void> {
    await until('publish() confirms', async () => {
      const told = await transport.publish(messages).catch(() => [new Error('nothing known')]);
      return told.every((error) => error === undefined);
    });
  }

  /** The messages that have come are in the list that it returns. */
  async consume(
    transport: EffectTransport,
    answer: Answer = () => ACK,
    { effects = [this.effect], concurrency = 10 } = {},
  ): Promise<{ readonly arrivals: Arrival[]; readonly close: Subscription['close'] }> {
    const arrivals: Arrival[] = [];
    const handle = async (message: EffectMessage, delivery: EngineDelivery) => {
      const arrival = { message, delivery, at: performance.now() };
      return answer(arrival, arrivals.push(arrival));
    };
    const subscription = await this.keep(transport.consume(effects, handle, { concurrency }), 'consume()');
    return { arrivals, close: (graceMs) => subscription.close(graceMs) };
  }

  async onReports(
    transport: EffectTransport,
    handle: (report: EffectReport) => Promise<void>,
  ): Promise<Subscription> {
    return this.keep(transport.onReports(handle), 'onReports()');
  }

  async end(): Promise<void> {
    await Promise.all(this.subscriptions.map((one) => one.close(0)));
    await Promise.all(this.transports.map((one) => one.close()));
  }

  private async keep(made: Promise<Subscription>, what: string): Promise<Subscription> {
    const subscription = await withTimeLimit(made, PATIENCE_MS, what);
    this.subscriptions.push(subscription);
    return subscription;
  }
}

export function reportOf(given: Partial<EffectReport> = {}): EffectReport {
  const at = new Date().toISOString();
  const ended = { attempts: 2, begunAt: at, endedAt: at, host: 'żółć-1' };
  return { id: randomUUID(), effect: 'charge', life: 0, outcome: 'done', ...ended, ...given };
}

export const idsOf = (arrivals: readonly Arrival[]) => arrivals.map(({ message }) => message.id);

/** @throws Error when it is not so in time */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (const end = performance.now() + PATIENCE_MS; !(await isSo()); await sleep(20))
    if (performance.now() > end) throw new Error(`expected within ${PATIENCE_MS} ms: ${what}`);
}

export function expectEqual(received: unknown, expected: unknown, what: string): void {
  if (!isDeepStrictEqual(received, expected))
    throw new Error(`expected ${what}: ${shown(expected)}; received ${shown(received)}`);
}

export function expectSo(isSo: boolean, what: string): void {
  if (!isSo) throw new Error(`expected ${what}`);
}

const shown = (value: unknown) => JSON.stringify(value, readable).slice(0, 500);

function readable(_: string, value: unknown): unknown {
  if (value === undefined || value instanceof Error) return String(value);
  return value instanceof Set ? [...(value as Set<unknown>)] : value;
}
