import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { abortReason, orAborted } from '../../core/time/waits.js';
import { retryDelayMs } from '../../core/options/retry.js';
import type { ListenConnection } from '../../storage/postgres/listen-connection.js';

export interface ListenTimes {
  /** Between two checks of the connection. */
  readonly heartbeatMs: number;
  /** How long a notification sent by the probe may take. */
  readonly probeMs: number;
  /** First and longest pause before another connection is tried. */
  readonly backOffMs: readonly [number, number];
  /** Pause after the probe has found that nothing arrives. */
  readonly deafMs: number;
}

/** With the 5 s that a connection waits for an answer, a socket that is dead without a sign is known as such within 15 s. */
export const LISTEN_TIMES: ListenTimes = {
  heartbeatMs: 10_000,
  probeMs: 2_000,
  backOffMs: [1_000, 30_000],
  deafMs: 600_000,
};

export interface ListenPorts {
  connect(onNotification: (payload: string) => void): Promise<ListenConnection>;
  /** Sends a notification over another connection. */
  notify(payload: string): Promise<void>;
  /** Something may be due. */
  wake(payload: string | undefined): void;
  /** Called once for each outage. */
  onLost(error: unknown): void;
  /** Called once when the connection works, but notifications do not arrive. */
  onDeaf(): void;
  /** Another use of the connection. It ends the connection by throwing, and never returns. @default none */
  guard?(connection: ListenConnection): Promise<never>;
}

const PROBE = 'probe:';

/** Keeps a listening connection: connect, probe, watch, and again with growing pauses. */
export class ListenLoop {
  private readonly stopping = new AbortController();
  private running: Promise<void> | undefined;
  private failures = 0;
  private toldDeaf = false;
  private heard = false;

  constructor(
    private readonly ports: ListenPorts,
    private readonly times: ListenTimes = LISTEN_TIMES,
  ) {}

  start(): void {
    this.running ??= this.run();
  }

  /** Whether notifications arrive right now. */
  get listening(): boolean {
    return this.heard;
  }

  async stop(): Promise<void> {
    this.stopping.abort();
    await this.running;
  }

  private async run(): Promise<void> {
    const { signal } = this.stopping;
    while (!signal.aborted) {
      const delayMs = await this.session();
      await sleep(delayMs, undefined, { signal }).catch(() => undefined);
    }
  }

  /** One connection's life. Returns the pause before the next. */
  private async session(): Promise<number> {
    const probes = new Map<string, () => void>();
    let connection: ListenConnection | undefined;
    try {
      connection = await this.connect((payload) => {
        if (payload.startsWith(PROBE)) probes.get(payload)?.();
        else this.ports.wake(payload);
      });
      const uses = [this.listen(connection, probes), this.ports.guard?.(connection)];
      return await Promise.race(uses.filter((use) => use !== undefined));
    } catch (error) {
      if (!this.stopping.signal.aborted && this.failures === 0) this.ports.onLost(abortReason(error));
    } finally {
      this.heard = false;
      connection?.close();
    }
    this.failures += 1;
    const [baseMs, capMs] = this.times.backOffMs;
    return retryDelayMs({ baseMs, capMs, maxAttempts: Infinity }, this.failures);
  }

  /** Returns the pause after a probe that has not arrived; otherwise it throws at the connection's end. */
  private async listen(connection: ListenConnection, probes: Map<string, () => void>): Promise<number> {
    if (!(await this.testArrival(probes, connection.lost))) {
      if (!this.toldDeaf) this.ports.onDeaf();
      this.toldDeaf = true;
      return this.times.deafMs;
    }
    this.failures = 0;
    this.heard = true;
    // Rows may have been committed before this connection listened.
    this.ports.wake(undefined);
    return this.watch(connection);
  }

  /** A shutdown does not wait for a server that does not answer. */
  private async connect(onNotification: (payload: string) => void): Promise<ListenConnection> {
    const opening = this.ports.connect(onNotification);
    try {
      return await orAborted(opening, this.stopping.signal);
    } catch (error) {
      opening.then(
        (late) => late.close(),
        () => undefined,
      );
      throw error;
    }
  }

  /** Until the connection is lost, fails its check, or the loop is stopped: then it throws. */
  private async watch(connection: ListenConnection): Promise<never> {
    const signal = AbortSignal.any([this.stopping.signal, connection.lost]);
    for (;;) {
      await sleep(this.times.heartbeatMs, undefined, { signal });
      await orAborted(connection.check(), signal);
    }
  }

  /**
   * Whether a notification sent over another connection arrives here. Behind a transaction pooler LISTEN succeeds, on a server
   * connection that is lent to others afterwards, and nothing ever comes. Three tries, since a loaded server may be slow.
   */
  private async testArrival(probes: Map<string, () => void>, lost: AbortSignal): Promise<boolean> {
    const signal = AbortSignal.any([this.stopping.signal, lost]);
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const payload = PROBE + randomUUID();
      const arrived = new Promise<true>((resolve) => probes.set(payload, () => resolve(true)));
      try {
        await orAborted(this.ports.notify(payload), signal);
      } catch {
        signal.throwIfAborted();
        // Nothing can be said about the listener where notifying fails.
        return true;
      }
      const late = sleep(this.times.probeMs, false, { signal });
      if (await Promise.race([arrived, late])) return true;
    }
    return false;
  }
}
