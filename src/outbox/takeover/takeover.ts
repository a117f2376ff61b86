import { randomBytes } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { isServerUnusable, sqlStateOf } from '../../core/classify.js';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { sleep, endsWithin } from '../../core/time/waits.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { onConnection } from '../../storage/postgres/connection.js';
import type { ListenConnection } from '../../storage/postgres/listen-connection.js';
import { TakeoverStore, type InstanceLock } from '../../storage/postgres/takeover.store.js';
import { LeasedWork } from '../relay/leased-work.js';
import { WakeUp } from '../wake/wake-up.js';
import { LockWatch, SILENT_MS, unlockedMs } from './lock-watch.js';

/** Between two polls of the locks of other processes. */
const POLL_MS = 500;
/** After a statement that the server has refused. */
const REFUSED_MS = 1_000;
/** For one try to withdraw a lock, and between two. */
const WITHDRAW_MS = 1_000;
const WITHDRAW_AGAIN_MS = 100;

/**
 * Ends the leases of a killed process within two seconds, instead of thirty. Each process holds a lock on its LISTEN connection, and polls
 * the locks of the others. PostgreSQL frees the lock when the process ends. A living process that loses the connection withdraws its lock
 * over the pool. One that can do neither aborts its runs. Without a lock, the lease decides.
 */
@Injectable()
export class Takeover {
  private readonly logger = new InboxLogger();
  /** Registered, or about to be. */
  private lock: InstanceLock | undefined;
  /** Lost with their connections, and not withdrawn yet: others may believe this process dead. */
  private readonly lost = new Set<InstanceLock>();
  private isStopped = false;
  private toldRefused = false;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: TakeoverStore,
    private readonly instance: Instance,
    private readonly work: LeasedWork,
    private readonly wakeUp: WakeUp,
  ) {}

  /**
   * Locks, registers, and polls the others' locks, for as long as the connection lasts. It never returns.
   * @throws when the connection is lost, or not answered in time
   */
  async guard(session: ListenConnection): Promise<never> {
    // Through a pooler a lock seems free while it is held, and stays held after its client's death.
    if (!this.isWanted || !(await answerInTime(session.isDirect()))) return forever();
    const lock = { owner: this.instance.id, key: randomBytes(8).readBigInt64BE().toString() };
    const watch = new LockWatch();
    let isLocked = false;
    let heardAt = performance.now();
    try {
      for (;;) {
        const obeyed = await this.tryStatements(async () => {
          isLocked ||= await answerInTime(this.store.lock(session, lock));
          if (isLocked) await this.pollLocks(session, lock, watch);
        });
        heardAt = performance.now();
        await sleep(obeyed ? POLL_MS : REFUSED_MS, session.lost);
        session.lost.throwIfAborted();
      }
    } finally {
      if (this.lock === lock) void this.lose(lock, heardAt);
    }
  }

  /** Before the connection is closed on purpose. */
  async stop(): Promise<void> {
    this.isStopped = true;
    if (this.lock === undefined) return;
    await endsWithin(this.withdraw(this.lock), WITHDRAW_MS).catch(() => undefined);
  }

  private get isWanted(): boolean {
    return this.options.relay !== false && this.options.relay.takeover && !this.isStopped;
  }

  private async pollLocks(session: ListenConnection, lock: InstanceLock, watch: LockWatch): Promise<void> {
    const askedAt = performance.now();
    const locks = await answerInTime(this.store.listLocks(session, lock.owner));
    const answeredAt = performance.now();
    // Not yet; or no longer, since this process was silent for so long that its row was deleted.
    if (!locks.some(({ key }) => key === lock.key)) await this.register(session, lock);
    for (const dead of watch.observe(locks, askedAt, answeredAt)) await this.take(session, dead);
  }

  private async register(session: ListenConnection, lock: InstanceLock): Promise<void> {
    if (this.isStopped) return;
    // Before it is known to be there: the answer may be lost.
    this.lock = lock;
    if (!(await answerInTime(this.store.register(session, lock)))) return;
    // In the place of an earlier one.
    this.lost.clear();
    this.work.resume();
  }

  private async take(session: ListenConnection, dead: InstanceLock): Promise<void> {
    const rows = await answerInTime(this.store.take(session, dead));
    if (rows === 0) return;
    const text = 'a process has ended without giving its leases back: its rows are run again';
    this.logger.warn(logLine(text, { instance: dead.owner, rows }));
    this.wakeUp.wake();
  }

  /** False where the server has refused a statement: the connection is sound, and until it is obeyed the leases decide. */
  private async tryStatements(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      this.toldRefused = false;
      return true;
    } catch (error) {
      if (sqlStateOf(error) === undefined || isServerUnusable(error)) throw error;
      if (!this.toldRefused)
        this.logger.warn(
          logLine(`takeover does not work, so work waits for the end of its lease: ${errorText(error)}`, {}),
        );
      this.toldRefused = true;
      return false;
    }
  }

  private async lose(lock: InstanceLock, heardAt: number): Promise<void> {
    if (this.isStopped) return;
    this.lost.add(lock);
    const late = setTimeout(() => this.abort(lock), unlockedMs(heardAt, performance.now()));
    // A process that has nothing else to do ends without it.
    late.unref();
    while (this.lost.has(lock) && !this.isStopped) {
      try {
        await this.withdraw(lock);
        this.lost.delete(lock);
      } catch {
        await sleep(WITHDRAW_AGAIN_MS);
      }
    }
    clearTimeout(late);
    if (this.lost.size === 0) this.work.resume();
  }

  private abort(lock: InstanceLock): void {
    if (!this.lost.has(lock)) return;
    const text = 'the lock of this process is lost and cannot be withdrawn: running work is aborted';
    this.logger.error(logLine(text, { running: this.work.running }));
    this.work.suspend();
  }

  private async withdraw(lock: InstanceLock): Promise<void> {
    await onConnection(this.dataSource, (manager) => this.store.withdraw(manager, lock), WITHDRAW_MS);
  }
}

/**
 * In two halves: where this process stood still, the first is over when it goes on, and the answer that has come meanwhile is read during
 * the second.
 * @throws Error when there is no answer
 */
async function answerInTime<T>(asking: Promise<T>): Promise<T> {
  if ((await endsWithin(asking, SILENT_MS / 2)) || (await endsWithin(asking, SILENT_MS / 2))) return asking;
  throw new Error(`time-out: the server did not answer within ${SILENT_MS} ms`);
}

const forever = () => new Promise<never>(() => undefined);
