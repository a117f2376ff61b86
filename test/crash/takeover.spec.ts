import { join } from 'node:path';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { Injectable, type INestApplication } from '@nestjs/common';
import { Client } from 'pg';
import { DataSource } from 'typeorm';
import { OnEffect, Outbox } from '../../src/index.js';
import type { RelayOptions } from '../../src/core/options/options.js';
import { WEBHOOKS_DATA_SOURCE } from '../../src/core/tokens.js';
import { WakeListener } from '../../src/outbox/wake/wake.listener.js';
import { Server } from '../chaos/support/server.js';
import { createStageDatabase } from '../chaos/support/stage-database.js';
import { awardeeSource } from '../integration/support/inbox.js';
import { relayProcess, type RelayProcess } from '../integration/support/relay.processes.js';
import { createApplication, until } from '../support/application.js';
import { createDatabase } from '../support/database.js';
import { TcpProxy } from '../support/tcp-proxy.js';
import { TransactionPooler } from '../support/transaction-pooler.js';

const MANY = 5;
const END_MS = 90_000;

/** What the relays run; this process runs none of it. */
@Injectable()
class Holds {
  @OnEffect('hold', { timeout: '1h', keyRetention: false })
  async hold() {
    await Promise.reject(new Error('run in a process of the tests'));
  }
}

interface Row {
  readonly attempt: number;
  readonly lost: number;
  readonly leased_by: string | null;
}

interface Busy {
  readonly relay: RelayProcess;
  /** Of the row that it runs. */
  readonly id: string;
  readonly attempt: number;
}

/** Relays in processes of their own, which hold what they lease for an hour, and a receiver that gives them effects without an end. */
class Fleet {
  private readonly relays: RelayProcess[] = [];
  private client: Promise<Client> | undefined;

  private constructor(
    private readonly url: string,
    private readonly app: INestApplication,
  ) {}

  static async start(url: string): Promise<Fleet> {
    const app = await receiver(url, false);
    const fleet = new Fleet(url, app);
    return fleet;
  }

  async stop(): Promise<void> {
    for (const { pid, ended } of this.relays) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
      await ended;
    }
    await this.app.close();
    await (await this.client)?.end();
  }

  private async enqueue(): Promise<void> {
    const { manager } = this.app.get<DataSource>(WEBHOOKS_DATA_SOURCE);
    await this.app.get(Outbox).enqueue(manager, 'hold', {}, { outsideTransaction: true });
  }

  /** A relay that runs one effect, and the row of it. */
  async busy(env: Record<string, string> = {}): Promise<Busy> {
    const relay = await this.relay({ EFFECTS: '1', ...env });
    await this.enqueue();
    const runs = () =>
      this.ask<{ id: string }>(
        `SELECT o.id FROM webhook_outbox o JOIN webhook_relay r ON o.leased_by = r.id WHERE r.pid = $1`,
        [relay.pid],
      );
    await until(async () => (await runs()).length > 0, END_MS);
    const { id } = (await runs())[0]!;
    return { relay, id, attempt: (await this.row(id)).attempt };
  }

  /** Whether the row of a process has been lost, and has another attempt. */
  async goesOn({ id, attempt }: Busy): Promise<boolean> {
    const row = await this.row(id);
    return row.lost === 1 && row.attempt > attempt;
  }

  async relay(env: Record<string, string> = {}): Promise<RelayProcess> {
    const relay = await relayProcess(this.url, { LEASE: '1h', ...env });
    this.relays.push(relay);
    await until(async () => (await this.lock(relay)) !== null, END_MS);
    return relay;
  }

  async row(id: string): Promise<Row> {
    return (
      await this.ask<Row>(`SELECT attempt, lost, leased_by FROM webhook_outbox WHERE id = $1`, [id])
    )[0]!;
  }

  /** What a relay has registered. */
  async lock({ pid }: RelayProcess): Promise<string | null> {
    const [row] = await this.ask<{ lock_key: string | null }>(
      `SELECT lock_key FROM webhook_relay WHERE pid = $1`,
      [pid],
    );
    return row?.lock_key ?? null;
  }

  /** Waits until a relay has looked at the others so often, each time at least half a second after the time before. */
  async looks({ pid }: RelayProcess, times = MANY): Promise<void> {
    const seen = new Set<string>();
    await until(async () => {
      const rows = await this.ask<{ at: string }>(`SELECT a.query_start::text AS at ${SESSIONS}`, [pid]);
      for (const { at } of rows) seen.add(at);
      return seen.size > times;
    }, END_MS);
  }

  /** Ends the connection on which a relay listens and holds its lock. */
  async cut({ pid }: RelayProcess): Promise<void> {
    await this.ask(`SELECT pg_terminate_backend(a.pid) ${SESSIONS}`, [pid]);
  }

  private async ask<T>(sql: string, values?: readonly unknown[]): Promise<T[]> {
    this.client ??= this.connect();
    return (await (await this.client).query(sql, values && [...values])).rows as T[];
  }

  private async connect(): Promise<Client> {
    const client = new Client({ connectionString: this.url });
    // A server that is restarted: the next question has another connection.
    client.on('error', () => (this.client = undefined));
    await client.connect();
    return client;
  }
}

/** The session that holds the lock of a process. */
const SESSIONS = `
  FROM webhook_relay r
  JOIN pg_locks l ON l.locktype = 'advisory' AND (l.classid::bigint << 32) + l.objid::bigint = r.lock_key
  JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE r.pid = $1`;

function receiver(databaseUrl: string, relay: false | RelayOptions): Promise<INestApplication> {
  return createApplication({
    databaseUrl,
    webhooks: { sources: { awardee: awardeeSource() }, relay, reconcile: false, retention: false },
    providers: [Holds],
    configure: (app) => app.useLogger(false),
  });
}

describe('takeover', () => {
  it('has the work of a killed process go on long before its lease ends, and takes nothing from one that lives', async () => {
    const database = await createDatabase();
    const fleet = await Fleet.start(database.url);
    const proxy = await TcpProxy.start(database.url);
    try {
      const living = await fleet.busy({ LISTEN_URL: proxy.url });
      const doomed = await fleet.busy();
      const survivor = await fleet.relay();
      const before = await fleet.row(living.id);
      await fleet.looks(survivor, 2);

      // Frozen, it says nothing, and its lock is held.
      process.kill(living.relay.pid, 'SIGSTOP');
      process.kill(doomed.relay.pid, 'SIGKILL');
      await until(() => fleet.goesOn(doomed), END_MS);
      await fleet.looks(survivor);
      expect(await fleet.row(living.id)).toEqual(before);
      process.kill(living.relay.pid, 'SIGCONT');

      // It loses its lock, and takes another.
      await fleet.looks(living.relay, 1);
      const lock = await fleet.lock(living.relay);
      await fleet.cut(living.relay);
      await until(async () => ![lock, null].includes(await fleet.lock(living.relay)), END_MS);
      await fleet.looks(survivor);
      expect(await fleet.row(living.id)).toEqual(before);

      // It loses its lock and cannot come back: withdrawn over the pool, it says nothing of its death. Then the lease decides.
      await proxy.stop();
      await until(async () => (await fleet.lock(living.relay)) === null, END_MS);
      await fleet.looks(survivor);
      process.kill(living.relay.pid, 'SIGKILL');
      await living.relay.ended;
      await fleet.looks(survivor);
      expect(await fleet.row(living.id)).toEqual(before);
    } finally {
      await fleet.stop();
      await proxy.stop();
      await database.drop();
    }
  }, 240_000);

  it('after a restart of the server it waits for those that come back', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'webhook-takeover-'));
    const server = await Server.create(join(dir, 'server.log'), ['max_connections=100']);
    await server.start();
    const fleet = await Fleet.start(await createStageDatabase(server.url, 'takeover'));
    try {
      const living = await fleet.busy();
      const doomed = await fleet.busy();
      const survivor = await fleet.relay();
      const before = await fleet.row(living.id);
      const locks = [await fleet.lock(living.relay), await fleet.lock(survivor)];
      await server.stopAtOnce();
      process.kill(doomed.relay.pid, 'SIGKILL');
      await server.start();
      await until(() => fleet.goesOn(doomed), END_MS);
      expect(await fleet.row(living.id)).toEqual(before);
      for (const one of [living.relay, survivor])
        await until(async () => ![...locks, null].includes(await fleet.lock(one)), END_MS);
      await fleet.looks(survivor);
      expect(await fleet.row(living.id)).toEqual(before);
    } finally {
      await fleet.stop();
      await server.remove();
      await rm(dir, { recursive: true });
    }
  }, 240_000);

  it('registers no lock where it is switched off, nor behind a transaction pooler; a process that ends withdraws its own', async () => {
    const database = await createDatabase();
    const pooler = await TransactionPooler.start(database.url);
    const locks = () =>
      database.query<{ listens: boolean; registered: boolean }>(
        `SELECT listens, lock_key IS NOT NULL AS registered FROM webhook_relay ORDER BY started_at`,
      );
    const off = await receiver(database.url, { takeover: false });
    await until(async () => off.get(WakeListener).listening && (await locks()).length === 1);
    const pooled = await receiver(pooler.url, {});
    await until(async () => (await locks()).length === 2);
    const on = await receiver(database.url, {});
    try {
      await until(async () => (await locks()).some(({ registered }) => registered));
      expect((await locks()).map(({ registered }) => registered)).toEqual([false, false, true]);
      await on.get(WakeListener).stop();
      expect((await locks()).map(({ registered }) => registered)).toEqual([false, false, false]);
    } finally {
      await Promise.all([off.close(), pooled.close(), on.close()]);
      await pooler.stop();
      await database.drop();
    }
  });
});
