import { Client, type ClientConfig, type Notification } from 'pg';
import type { DataSource } from 'typeorm';
import { quoted } from '../schema/own-schema.js';
import { OWN_TYPES } from './own-types.js';

/**
 * A connection of its own that listens: one of a pool would be lent to others. It keeps an eye on itself, since a half-open socket
 * shows no error and no end.
 */
export class ListenConnection {
  private constructor(
    private readonly client: Client,
    private readonly channel: string,
    private readonly timeoutMs: number,
    /** Fires when the connection has ended, as far as the socket shows. */
    readonly lost: AbortSignal,
  ) {}

  /**
   * @param timeoutMs for each answer of the server
   * @throws when it cannot connect, or is not answered in time
   */
  static async open(
    config: ClientConfig,
    channel: string,
    timeoutMs: number,
    onNotification: (payload: string) => void,
  ): Promise<ListenConnection> {
    const client = new Client({
      ...config,
      keepAlive: true,
      connectionTimeoutMillis: timeoutMs,
      query_timeout: timeoutMs,
    });
    const lost = new AbortController();
    client.on('error', (error) => lost.abort(error));
    client.on('end', () => lost.abort(new Error('the connection ended')));
    client.on('notification', ({ payload }: Notification) => onNotification(payload ?? ''));
    const connection = new ListenConnection(client, channel, timeoutMs, lost.signal);
    try {
      await connection.answerInTime(client.connect());
      await connection.answerInTime(client.query(`LISTEN ${quoted(channel)}`));
      return connection;
    } catch (error) {
      connection.close();
      throw error;
    }
  }

  /** @throws when the server does not answer in time, or does not know that this connection listens */
  async check(): Promise<void> {
    const { rows } = await this.answerInTime(
      this.client.query<{ channel: string }>(`SELECT pg_listening_channels() AS channel`),
    );
    if (!rows.some(({ channel }) => channel === this.channel)) {
      throw new Error('the server does not know that this connection listens');
    }
  }

  /**
   * Whether it leads to one server process for as long as it lasts. A process sends its number to a client at the start, and a pooler makes
   * one up.
   */
  async isDirect(): Promise<boolean> {
    const [row] = await this.query<{ pid: number }>(`SELECT pg_backend_pid() AS pid`);
    const { processID } = this.client as Client & { readonly processID?: number | null };
    return row!.pid === processID;
  }

  /** @throws when the server refuses it, or does not answer in time */
  async query<T>(text: string, values: readonly unknown[] = []): Promise<T[]> {
    const { rows } = await this.answerInTime(
      this.client.query({ text, values: [...values], types: OWN_TYPES }),
    );
    return rows as T[];
  }

  /** pg's own words for a time-out, 'timeout expired' and 'Query read timeout', say neither whose nor how long. */
  private async answerInTime<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof Error && /^(timeout expired|Query read timeout)$/.test(error.message)))
        throw error;
      throw new Error(`time-out: the server did not answer within ${this.timeoutMs} ms`, { cause: error });
    }
  }

  /** Not awaited: on a half-open socket the end never comes; with an unanswered query pg drops the socket at once. */
  close(): void {
    this.client.end().catch(() => undefined);
  }
}

/** How to reach the DataSource's server (or another by URL) on a connection of one's own. */
export function listenConfig(dataSource: DataSource, url: string | undefined): ClientConfig {
  if (url !== undefined) return { connectionString: url };
  const { driver } = dataSource as { driver: { master?: { options?: ClientConfig } } };
  const options = driver.master?.options ?? {};
  // pg hides the password from enumeration, so that a log of the options does not show it.
  return { ...options, password: options.password };
}
