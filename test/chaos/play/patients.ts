import { setTimeout as sleep } from 'node:timers/promises';
import { TcpProxy } from '../../support/tcp-proxy.js';
import { copyForStandby } from '../support/backup.js';
import { ask, Server } from '../support/server.js';
import { sleepUntil } from '../support/sleep-until.js';

/** As in production; a standby that is a while behind still finds its log. */
const SETTINGS = ['max_connections=200', 'wal_keep_size=512MB'];
/** What is acknowledged is on no disk for as long as ten seconds: such a server forgets, and the checker has to say so. */
const FORGETFUL = ['synchronous_commit=off', 'wal_writer_delay=10s'];
const STANDBY_MS = 60_000;
/** For how long the standby hears nothing before its primary ends. */
const SILENCE_MS = 1_000;

/** A database that goes away under load and comes back. */
export interface Patient {
  readonly kind: 'stop' | 'promotion';
  /** The server that is written to. */
  readonly server: Server;
  /** Where receivers find a database, whichever server has it. */
  through(database: string): string;
  /** Makes ready for the next outage, under load. */
  prepare(): Promise<void>;
  /** Comes right before the end: the nth. */
  weaken(nth: number): Promise<void>;
  /** Resolves when the server has ended. */
  end(): Promise<void>;
  /** Resolves when there is one that can be written to. */
  comeBack(): Promise<void>;
  remove(): Promise<void>;
}

/** One server that ends at once, and starts again. */
export class LoneServer implements Patient {
  readonly kind = 'stop';

  private constructor(readonly server: Server) {}

  static async start(logFile: string, asynchronous: boolean): Promise<LoneServer> {
    const server = await Server.create(logFile, asynchronous ? [...SETTINGS, ...FORGETFUL] : SETTINGS);
    await server.start();
    return new LoneServer(server);
  }

  through(database: string): string {
    return this.server.urlOf(database);
  }

  async prepare(): Promise<void> {
    // Nothing is needed.
  }

  async weaken(): Promise<void> {
    // It ends in the middle of its work.
  }

  async end(): Promise<void> {
    await this.server.stopAtOnce();
  }

  async comeBack(): Promise<void> {
    await this.server.start();
  }

  async remove(): Promise<void> {
    await this.server.remove();
  }
}

/** A primary with a standby that takes its place when it ends; receivers find whichever it is behind one address. */
export class Pair implements Patient {
  readonly kind = 'promotion';
  private standby: Server | undefined;
  private link: TcpProxy | undefined;

  private constructor(
    private primary: Server,
    private readonly front: TcpProxy,
    private readonly logFile: string,
    private readonly asynchronous: boolean,
  ) {}

  static async start(logFile: string, asynchronous: boolean): Promise<Pair> {
    const primary = await Server.create(logFile, SETTINGS);
    await primary.start();
    return new Pair(primary, await TcpProxy.start(primary.url), logFile, asynchronous);
  }

  get server(): Server {
    return this.primary;
  }

  through(database: string): string {
    const url = new URL(this.front.url);
    url.pathname = `/${database}`;
    return url.href;
  }

  /** A standby, made while the primary is written to. */
  async prepare(): Promise<void> {
    this.link = await TcpProxy.start(this.primary.url);
    const { hostname, port } = new URL(this.link.url);
    const conninfo = `host=${hostname} port=${port} user=postgres password=postgres`;
    const standby = await Server.empty(this.logFile, [...SETTINGS, `primary_conninfo=${conninfo}`]);
    this.standby = standby;
    await copyForStandby(this.primary.url, this.primary.data, standby.data);
    await standby.start();
    await this.standbyIs('streaming', `state = 'streaming'`);
    if (!this.asynchronous) {
      await this.tell(`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`);
      await this.standbyIs('synchronous', `sync_state = 'sync'`);
    }
  }

  /** Each other standby is cut off: the primary then makes commits that it has not. With a synchronous one, nobody is told of them. */
  async weaken(nth: number): Promise<void> {
    if (!this.asynchronous && nth % 2 === 1) return;
    this.link!.freeze();
    await sleep(SILENCE_MS);
  }

  async end(): Promise<void> {
    await this.primary.stopAtOnce();
  }

  async comeBack(): Promise<void> {
    const standby = this.standby!;
    const former = this.primary;
    // As where the address moves first: for a moment, receivers meet a server that only reads.
    this.front.lead(standby.url);
    this.primary = standby;
    this.standby = undefined;
    await this.tell(`SELECT pg_promote(wait_seconds => ${STANDBY_MS / 1_000})`);
    await this.link?.stop();
    await former.remove();
  }

  async remove(): Promise<void> {
    await this.link?.stop();
    await this.front.stop();
    await this.standby?.remove();
    await this.primary.remove();
  }

  private async tell(...statements: readonly string[]): Promise<void> {
    const told = await ask(this.primary.url, async (client) => {
      for (const statement of statements) await client.query(statement);
      return true;
    });
    if (told === undefined) throw new Error(`refused: ${statements.join('; ')}; see ${this.logFile}`);
  }

  private async standbyIs(what: string, condition: string): Promise<void> {
    const holds = () =>
      ask(this.primary.url, async (client) => {
        const { rowCount } = await client.query(`SELECT FROM pg_stat_replication WHERE ${condition}`);
        return rowCount === 1;
      });
    await sleepUntil(async () => (await holds()) === true, STANDBY_MS);
    if ((await holds()) !== true) throw new Error(`the standby is not ${what}; see ${this.logFile}`);
  }
}
