import {
  Inject,
  Injectable,
  Module,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { InboxLogger } from './core/log/inbox.logger.js';
import { cautions } from './core/options/cautions.js';
import { logLine } from './core/log/log.js';
import { neutral } from './core/neutral.js';
import type { ResolvedOptions } from './core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from './core/tokens.js';
import { HandlerRegistry } from './handlers/handler.registry.js';
import { nearTypes } from './handlers/near-types.js';
import { SourceUrls } from './http/source-urls.js';
import { DeliveryRuns } from './inbox/runs/delivery-runs.js';
import { RelayClaims } from './inbox/relay-claims.js';
import { Engines } from './outbox/engine/engines.js';
import { HandOff } from './outbox/relay/hand-off.js';
import { GapFinder } from './inbox/catch-up/gap.finder.js';
import { AGAIN_MS } from './inbox/catch-up/rematch.js';
import { JOB_MS, StartupReconciler } from './inbox/catch-up/startup.reconciler.js';
import { Retention } from './operator/retention.js';
import { HostTimers } from './outbox/host-timers.js';
import { Notifier } from './outbox/wake/notifier.js';
import { LeasedWork } from './outbox/relay/leased-work.js';
import { RelayLoop } from './outbox/relay/relay.loop.js';
import { WakeListener } from './outbox/wake/wake.listener.js';
import { wayOf } from './storage/postgres/transaction-way.js';

/** How long a shutdown waits for leases of rows that were committed at the last moment. */
const GIVE_BACK_MS = 1_000;
/** A pass of the reconciler that keeps failing is tried after a minute, and at last each hour. */
const MOST_DOUBLINGS = 6;

/**
 * Starts the relay after the bootstrap of every module of the application, and stops it before the first is destroyed. Nest starts a global
 * module first and stops it last. Its handlers would run before their clients exist and after they are gone. So this module puts itself at
 * the other end of the order.
 */
@Injectable()
export class Lifecycle implements OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown {
  private readonly logger = new InboxLogger();

  constructor(
    modules: ModulesContainer,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly runs: DeliveryRuns,
    private readonly claims: RelayClaims,
    private readonly handOff: HandOff,
    private readonly engines: Engines,
    private readonly loop: RelayLoop,
    private readonly work: LeasedWork,
    private readonly notifier: Notifier,
    private readonly listener: WakeListener,
    private readonly timers: HostTimers,
    private readonly reconciler: StartupReconciler,
    private readonly retention: Retention,
    private readonly gaps: GapFinder,
    private readonly registry: HandlerRegistry,
    private readonly urls: SourceUrls,
  ) {
    // Nest sorts modules by distance from the root, farthest first, when it calls the first hook; constructors run before.
    for (const module of modules.values()) {
      if (module.metatype === LifecycleModule) module.distance = -1;
    }
  }

  onApplicationBootstrap(): void {
    // An application may be started within a context of its own, such as a span.
    neutral(() => this.begin());
  }

  private begin(): void {
    for (const source of this.options.sources.values()) {
      const handlers = this.registry.handlersOf(source.name);
      const waits = this.registry.hasInline(source.name);
      const routes = this.registry.routesOf(source.name);
      const said = [...cautions(source, { waits, routes }), ...nearTypes(source.provider, handlers)];
      for (const text of said) this.logger.warn(logLine(text, { source: source.name }));
    }
    this.logWay();
    this.urls.logAll();
    this.loop.start();
    this.engines.start();
    this.gaps.start();
    this.notifier.start();
    this.listener.start();
    if (this.options.reconcile) {
      this.reconcile('webhook-inbox:reconcile', performance.now(), 0);
      this.reconcile('webhook-inbox:reconcile-again', performance.now() + AGAIN_MS, AGAIN_MS);
    }
    if (this.options.retention !== false) {
      this.timers.scheduleCron(
        'webhook-inbox:retention',
        this.options.retention.schedule,
        () => void this.retention.pruneQuietly(),
      );
    }
  }

  /** Drains here, before any other module's `onModuleDestroy`, where the clients of the handlers may be closed. */
  async onModuleDestroy(): Promise<void> {
    this.runs.startDraining();
    this.loop.stopLeasing();
    this.gaps.stop();
    this.timers.cancelAll();
    this.logWait();
    try {
      await Promise.all([this.runs.finish(this.claims.finish()), this.loop.finish(), this.engines.stop()]);
      await this.handOff.finish(GIVE_BACK_MS);
    } finally {
      // Last: a process that is killed while it drains is one whose work others take over.
      await this.listener.stop();
    }
  }

  /**
   * A pass of the reconciler in `ms`. It may fail, or another instance may keep it, also one that was killed in it. Then it is made later,
   * and looks further back.
   */
  private reconcile(name: string, dueAt: number, ms: number, tries = 0): void {
    const pass = async () => {
      const lateMs = performance.now() - dueAt;
      const wasWhole = await this.reconciler.reconcileQuietly({ lateMs, looksForRecords: tries === 0 });
      // Instances that boot together come back at different times.
      const laterMs = JOB_MS * 2 ** Math.min(tries, MOST_DOUBLINGS) * (1 + Math.random() / 2);
      if (!wasWhole) this.reconcile(name, dueAt, laterMs, tries + 1);
    };
    this.timers.schedule(name, ms, () => void pass(), { keepsAlive: ms === 0 });
  }

  private logWay(): void {
    const { claimsAreTypeorms, why } = wayOf(this.dataSource);
    const way = claimsAreTypeorms ? "in TypeORM's own transactions" : 'in one message each';
    this.logger.log(logLine(`claims are committed ${way}: ${why}`, {}));
  }

  /** Logs why a process does not end yet, for the person who waits for it or has killed it. */
  private logWait(): void {
    const { relay } = this.options;
    const jobs = this.work.running;
    const deliveries = this.runs.waiting;
    if (jobs + deliveries === 0) return;
    const graceMs = relay === false || jobs === 0 ? undefined : relay.graceMs;
    const what =
      graceMs === undefined ? 'deliveries wait for handlers' : `running work has up to ${graceMs / 1000} s`;
    this.logger.log(logLine(`draining: ${what}`, { jobs, deliveries, graceMs }));
  }

  async beforeApplicationShutdown(): Promise<void> {
    // Last: rows that are committed while draining are for the other instances.
    await this.notifier.stop();
    await this.engines.close();
  }
}

@Module({ providers: [Lifecycle] })
export class LifecycleModule {}
