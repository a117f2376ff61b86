import { Inject, Injectable, Logger } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { logLine } from '../core/log.js';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { PausedNames } from '../outbox/paused.names.js';
import { WakeUp } from '../outbox/wake-up.js';
import { PauseStore, type Pause, type PauseKind } from '../storage/pause.store.js';
import type { Decider } from './revivals.js';

/**
 * Pauses sources, handlers and effects on all instances, within a second. Events are still received and claimed; what runs goes on.
 * A paused source stops its handlers, not the effects that they have enqueued.
 */
@Injectable()
export class Pauses {
  private readonly logger = new Logger('WebhookInbox');

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: PauseStore,
    private readonly paused: PausedNames,
    private readonly wakeUp: WakeUp,
  ) {}

  /** @returns false when it was paused already */
  async pause(kind: PauseKind, name: string, { by, reason }: Decider): Promise<boolean> {
    const changed = await this.store.pause(this.dataSource.manager, kind, name, by, reason);
    this.paused.forget();
    this.logger.log(logLine('paused', { kind, name, by, reason }));
    return changed;
  }

  /** @returns false when it was not paused */
  async resume(kind: PauseKind, name: string, { by, reason }: Decider): Promise<boolean> {
    const changed = await this.store.resume(this.dataSource.manager, kind, name);
    this.paused.forget();
    this.logger.log(logLine('resumed', { kind, name, by, reason }));
    if (changed) this.wakeUp.wake();
    return changed;
  }

  list(): Promise<Pause[]> {
    return this.store.list(this.dataSource.manager);
  }
}
