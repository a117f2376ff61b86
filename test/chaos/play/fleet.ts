import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../../examples/support/free.port.js';
import { ChaosReceiver } from './receiver.js';

export const POLL_MS = 500;
export const LEASE_MS = 6_000;
const RECEIVERS = 3;
const START_MS = 120_000;
/** Of a hundred requests, so many go to any receiver, up or not. */
const ASTRAY = 15;

export interface FleetSetup {
  readonly databaseUrl: string;
  readonly adapter: 'express' | 'fastify';
  /** Where the receivers' logs go. */
  readonly dir: string;
  /** The compiled receiver. */
  readonly program: string;
  readonly sinkUrl: string;
  /** @default 3 */
  readonly size?: number;
  /** First part of their names. @default 'chaos' */
  readonly name?: string;
  /** Of each receiver, by its place. */
  readonly env?: (place: number) => Readonly<Record<string, string>>;
}

/** Receivers that share a database, behind a balancer that finds out late who is up. */
export class Fleet {
  private constructor(readonly receivers: readonly ChaosReceiver[]) {}

  /** Resolves when all of them serve. */
  static async start(setup: FleetSetup): Promise<Fleet> {
    mkdirSync(setup.dir, { recursive: true });
    const receivers: ChaosReceiver[] = [];
    for (let n = 0; n < (setup.size ?? RECEIVERS); n += 1) {
      const name = `${setup.name ?? 'chaos'}-${n}`;
      const env = {
        DATABASE_URL: setup.databaseUrl,
        SINK_URL: setup.sinkUrl,
        HTTP_ADAPTER: setup.adapter,
        POLL_MS: String(POLL_MS),
        LEASE_MS: String(LEASE_MS),
        ...setup.env?.(n),
      };
      const logFile = join(setup.dir, `${name}.log`);
      receivers.push(new ChaosReceiver(name, await freePort(), setup.program, logFile, env));
    }
    const fleet = new Fleet(receivers);
    for (const receiver of receivers) receiver.start();
    try {
      await fleet.allUp();
    } catch (error) {
      await fleet.stop();
      throw new Error(`see the logs in ${setup.dir}`, { cause: error });
    }
    return fleet;
  }

  get up(): ChaosReceiver[] {
    return this.receivers.filter((receiver) => receiver.owner !== undefined);
  }

  /** Who gets the next request. */
  next(): ChaosReceiver {
    const { up } = this;
    const among = up.length === 0 || Math.random() * 100 < ASTRAY ? this.receivers : up;
    return among[Math.floor(Math.random() * among.length)]!;
  }

  /** For how long the oldest of those that are up has been, in milliseconds. */
  upMs(): number {
    return Math.max(0, ...this.up.map(({ readyAt }) => performance.now() - readyAt));
  }

  /** All of them are up, and know each other's locks. */
  get seeEachOther(): boolean {
    return this.receivers.every(({ isSeen }) => isSeen);
  }

  async allUp(): Promise<void> {
    const end = performance.now() + START_MS;
    while (this.up.length < this.receivers.length) {
      if (performance.now() > end) throw new Error(`the receivers are not up after ${START_MS} ms`);
      await sleep(20);
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.receivers.map((receiver) => receiver.stop()));
  }
}
