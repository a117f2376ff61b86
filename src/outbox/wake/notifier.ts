import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import { neutral } from '../../core/neutral.js';
import { endsWithin } from '../../core/time/waits.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { NotifyStore } from '../../storage/notify.store.js';
import type { Statement } from '../../storage/postgres/message-query.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { wakePayload, WakeUp, type WokenNames } from './wake-up.js';

/** At most one NOTIFY in this time, however many commits there were: 20 a second cost nothing that can be measured. */
const SPACING_MS = 50;
const WARN_EVERY_MS = 60_000;
const STOP_MS = 1_000;

/** A notification that the caller sends on its own connection. */
export interface Notice {
  readonly statement: Statement;
  /** Must be called when the notification was answered, with the error if it failed. Until then no other notification is sent. */
  readonly ended: (error?: unknown) => void;
}

/** Passes this process's wakes on to the others, coalesced, and after the commit: a NOTIFY that fails changes nothing else. */
@Injectable()
export class Notifier {
  private readonly logger = new InboxLogger();
  private readonly wanted = new Set<string>();
  /** A commit of rows whose names are not known. */
  private wantsAll = false;
  /** The notification that is being sent, and those queued behind it. */
  private sending: Promise<void> | undefined;
  private isStarted = false;
  private warnedAt = -Infinity;

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: NotifyStore,
    private readonly statements: LoneStatements,
    private readonly instance: Instance,
    private readonly wakeUp: WakeUp,
  ) {}

  start(): void {
    if (!this.options.notify) return;
    this.isStarted = true;
    this.wakeUp.notifyOthersBy((names) => this.notify(names));
  }

  /** Sends nothing more. Waits for a notification under way, but not for a connection that does not answer. */
  async stop(): Promise<void> {
    this.isStarted = false;
    this.wakeUp.notifyOthersBy(undefined);
    if (this.sending !== undefined) await endsWithin(this.sending, STOP_MS);
  }

  /**
   * The notification of these names, for a caller whose connection has just committed them. It saves another connection. Undefined while
   * another notification is under way: then, as after a failure, the names are sent later.
   */
  notice(names: readonly string[]): Notice | undefined {
    if (!this.isStarted || this.sending !== undefined || names.length === 0) return undefined;
    const all = [...new Set(names)];
    let ended: Notice['ended'];
    const answered = new Promise<void>((resolve) => {
      ended = (error) => {
        if (error !== undefined) this.want(all);
        resolve();
      };
    });
    this.sending = answered.then(() => neutral(() => this.sendAll(SPACING_MS)));
    return { statement: this.store.statement(wakePayload(this.instance.id, all)), ended: ended! };
  }

  private want(names: WokenNames): void {
    if (names === undefined) this.wantsAll = true;
    else for (const name of names) this.wanted.add(name);
  }

  private notify(names: WokenNames): void {
    this.want(names);
    this.sending ??= neutral(() => this.sendAll());
  }

  /** @param restMs before the first */
  private async sendAll(restMs = 0): Promise<void> {
    try {
      if (restMs > 0) await sleep(restMs);
      while (this.wantsAll || this.wanted.size > 0) {
        const names = this.wantsAll ? undefined : [...this.wanted];
        this.wantsAll = false;
        this.wanted.clear();
        // The sender's name, so that its own listener does not wake it again.
        const payload = wakePayload(this.instance.id, names);
        await this.statements
          .send((manager) => this.store.notify(manager, payload))
          .catch((error: unknown) => this.warn(error));
        await sleep(SPACING_MS);
      }
    } finally {
      // Set in the same turn as the last check, so that a later call begins another loop.
      this.sending = undefined;
    }
  }

  private warn(error: unknown): void {
    if (performance.now() - this.warnedAt < WARN_EVERY_MS) return;
    this.warnedAt = performance.now();
    const text = `other instances could not be notified and will poll: ${errorText(error)}`;
    this.logger.warn(logLine(text, {}));
  }
}
