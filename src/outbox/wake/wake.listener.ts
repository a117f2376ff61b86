import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Instance } from '../../core/instance.js';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { errorText, logLine } from '../../core/log/log.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { ListenConnection, listenConfig } from '../../storage/postgres/listen-connection.js';
import { NotifyStore } from '../../storage/notify.store.js';
import { channelOf } from '../../storage/schema/own-schema.js';
import { ListenLoop } from './listen.loop.js';
import { Takeover } from '../takeover/takeover.js';
import { readWakePayload, WakeUp } from './wake-up.js';

const ANSWER_MS = 5_000;

/** Wakes this process's relay when another instance has committed. Without it, or while it is down, polling finds the work. */
@Injectable()
export class WakeListener {
  private readonly logger = new InboxLogger();
  private loop: ListenLoop | undefined;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly store: NotifyStore,
    private readonly instance: Instance,
    private readonly wakeUp: WakeUp,
    private readonly takeover: Takeover,
  ) {}

  start(): void {
    const { relay } = this.options;
    if (relay === false || relay.listen === false || this.loop !== undefined) return;
    const { url } = relay.listen;
    this.loop = new ListenLoop({
      connect: (onNotification) =>
        ListenConnection.open(
          listenConfig(this.dataSource, url),
          channelOf(this.dataSource),
          ANSWER_MS,
          onNotification,
        ),
      notify: (payload) => this.store.notify(this.dataSource.manager, payload),
      wake: (payload) => {
        const { owner, names } = readWakePayload(payload);
        if (owner !== this.instance.id) this.wakeUp.wakeOwn(names);
      },
      onLost: (error) =>
        this.logger.warn(
          logLine(`LISTEN is down; polling until it is back: ${errorText(error)}`, { poll: relay.pollMs }),
        ),
      onDeaf: () =>
        this.logger.warn(
          logLine(
            'LISTEN succeeded, but notifications do not arrive: the connection leads through a pooler in transaction mode, or to ' +
              'another database. Polling. Set relay.listen to { url } of a direct connection, or to false',
            { poll: relay.pollMs },
          ),
        ),
      guard: (connection) => this.takeover.guard(connection),
    });
    this.loop.start();
  }

  /** Whether this process is notified of commits. Otherwise it polls. */
  get listening(): boolean {
    return this.loop?.listening ?? false;
  }

  /** Until then others see this process live: only when nothing of it runs any more. */
  async stop(): Promise<void> {
    await this.takeover.stop();
    await this.loop?.stop();
    this.loop = undefined;
  }
}
