import { hostname } from 'node:os';
import {
  Inject,
  Injectable,
  type BeforeApplicationShutdown,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
} from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { Instance } from '../core/instance.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import type { Alert } from '../core/telemetry/alert.js';
import { Alerts } from '../core/telemetry/alerts.js';
import { isRefusedContent } from '../core/classify.js';
import { logLine } from '../core/log/log.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { measureBacklog } from '../core/telemetry/meters.js';
import { Tally, type Counted } from '../core/telemetry/tally.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { within } from '../core/time/within.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { DeadLetters } from '../outbox/runs/dead-letters.js';
import { HostTimers } from '../outbox/host-timers.js';
import { Rounds } from '../outbox/relay/rounds.js';
import { UntoldDeaths } from '../outbox/runs/untold-deaths.js';
import { WakeListener } from '../outbox/wake/wake.listener.js';
import { AlertStore, type ToldAlert } from '../storage/desk/alert.store.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';
import { DestinationStore } from '../storage/destination.store.js';
import { LeaseStore } from '../storage/lease.store.js';
import { RelayStore } from '../storage/relay.store.js';
import { inTransaction, onConnection } from '../storage/postgres/connection.js';
import { StatStore } from '../storage/desk/stat.store.js';
import { storeErrorText } from '../storage/postgres/store-error.js';
import { FormerSources } from './former-sources.js';
import { RejectionExplainer } from './explain/rejection.explainer.js';
import { SILENT_MS } from './stats.js';
import { Watch } from './watch.js';

const TIMER = 'webhook-inbox:desk';
const ROUND_MS = 5_000;
const JOB = 'desk';
const JOB_MS = 3 * ROUND_MS;
/** When a connection is given up that does not answer. */
const END_MS = 5_000;
/** For what may take its time: pruning, and explaining. */
const PRUNE_MS = 30_000;
/** Rounds between two prunings. */
const PRUNE_EVERY = 120;
const STATS_AGE_MS = 3 * 86_400_000;
const INSTANCE_AGE_MS = 3_600_000;
/** Rows that nobody has code for are told of when they have been due for so long: a deploy takes its time. */
const UNKNOWN_AGE_MS = 3_600_000;
const MAX_ALERTS = 100;
const KEEP_ALERTS = 500;

type KeptAlert = Omit<ToldAlert, 'id'>;
const NOTHING: Counted = { metrics: [], duplicates: [], secrets: [] };

/**
 * Writes down, every few seconds and off the way of any request, what this process counted: rollups, duplicates, alerts, samples of
 * rejections and a sign of life. One process at a time also takes the backlog's measure and prunes.
 */
@Injectable()
export class DeskKeeper implements OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown {
  private readonly logger = new InboxLogger();
  /** Counts that earlier rounds could not write down. */
  private readonly unwritten = new Tally();
  private alerts: KeptAlert[] = [];
  private rounds = 0;
  private failing = false;
  private toldFormer = false;
  private state: 'idle' | 'started' | 'stopped' = 'idle';
  private running: Promise<void> = Promise.resolve();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly tally: Tally,
    private readonly reads: BoundedRead,
    private readonly store: StatStore,
    private readonly relays: RelayStore,
    private readonly alertStore: AlertStore,
    private readonly leases: LeaseStore,
    private readonly explainer: RejectionExplainer,
    private readonly watch: Watch,
    private readonly former: FormerSources,
    private readonly registry: HandlerRegistry,
    private readonly deadLetters: DeadLetters,
    private readonly relay: Rounds,
    private readonly instance: Instance,
    private readonly listener: WakeListener,
    private readonly timers: HostTimers,
    private readonly untold: UntoldDeaths,
    private readonly destinations: DestinationStore,
    alerts: Alerts,
  ) {
    alerts.listen((alert) => this.keep(alert));
  }

  onApplicationBootstrap(): void {
    this.state = 'started';
    this.timers.after(TIMER, 0, () => this.turn());
  }

  onModuleDestroy(): void {
    this.timers.cancel(TIMER);
  }

  async beforeApplicationShutdown(): Promise<void> {
    if (this.state !== 'started') return;
    this.state = 'stopped';
    this.timers.cancel(TIMER);
    // Counts are no reason to keep a process: a database that does not answer is not waited for.
    await within(this.running, END_MS);
    const leaving = this.quietly(async () => {
      await this.untold.look();
      await this.flush();
      await this.onOne((manager) => this.relays.leave(manager, this.instance.id));
    });
    await within(leaving, END_MS);
  }

  /** One round: everything counted since the last is written down. Tests call it; the timer does in production. */
  async round(): Promise<void> {
    // One at a time: a second one would return before what the first has drained is written down.
    const round = this.running.catch(() => undefined).then(() => this.roundNow());
    this.running = round.catch(() => undefined);
    return round;
  }

  private async roundNow(): Promise<void> {
    await this.flush();
    await this.untold.look();
    if (!this.toldFormer) {
      this.toldFormer = true;
      await this.reads.run((bounded) => this.former.tell(bounded));
    }
    const { manager } = this.dataSource;
    const isOurs = await this.leases.take(manager, JOB, this.instance.id, JOB_MS);
    if (!isOurs) {
      measureBacklog(undefined);
      return this.deadLetters.recheck();
    }
    await this.measure();
    // Rows that died where the process did not live to count them, or that a person has cleared.
    await this.deadLetters.check();
    if (this.rounds % PRUNE_EVERY === 0) await this.onOne((manager) => this.prune(manager), PRUNE_MS);
    this.rounds += 1;
  }

  /** On a connection that is given up when it does not answer: a half-open one would hold the rounds, and a shutdown, for ever. */
  private onOne<T>(work: (manager: EntityManager) => Promise<T>, endAfterMs = END_MS): Promise<T> {
    return onConnection(this.dataSource, work, endAfterMs);
  }

  private async flush(): Promise<void> {
    const counted = this.tally.drain();
    const alerts = this.alerts;
    this.alerts = [];
    this.watch.counted(counted.metrics);
    // What was counted before and could not be written down has been watched already.
    this.unwritten.giveBack(counted);
    const { metrics } = this.unwritten.drain();
    try {
      await this.write({ ...counted, metrics }, alerts);
    } catch (error) {
      if (!isRefusedContent(error)) {
        this.keepUnwritten({ ...counted, metrics }, alerts);
        throw error;
      }
      await this.writeApart({ ...counted, metrics }, alerts);
    }
    await this.onOne((manager) => this.relays.beat(manager, this.beat()), END_MS);
    await this.onOne((manager) => this.explainer.explain(manager), PRUNE_MS);
  }

  private async write(counted: Counted, alerts: readonly KeptAlert[]): Promise<void> {
    const write = async (manager: EntityManager) => {
      await this.store.lightly(manager);
      await this.store.flush(manager, counted);
      await this.alertStore.add(manager, alerts);
    };
    await inTransaction(this.dataSource.manager, END_MS, write, END_MS);
  }

  /** Each by itself, so that one that the database refuses is lost alone: it would be refused again at each round. */
  private async writeApart(
    { metrics, duplicates, secrets }: Counted,
    alerts: readonly KeptAlert[],
  ): Promise<void> {
    for (const one of metrics) await this.alone(`count ${one.metric}`, { ...NOTHING, metrics: [one] }, []);
    for (const one of duplicates) await this.alone('duplicates', { ...NOTHING, duplicates: [one] }, []);
    for (const one of secrets) await this.alone('secret', { ...NOTHING, secrets: [one] }, []);
    for (const one of alerts) await this.alone(`alert ${one.kind}`, NOTHING, [one]);
  }

  private async alone(what: string, counted: Counted, alerts: readonly KeptAlert[]): Promise<void> {
    try {
      await this.write(counted, alerts);
    } catch (error) {
      if (!isRefusedContent(error)) return this.keepUnwritten(counted, alerts);
      this.logger.warn(logLine(`dropped, since it cannot be stored: ${storeErrorText(error)}`, { what }));
    }
  }

  /** Added up again at the next round; duplicates and secrets are notes that may be missed. */
  private keepUnwritten(counted: Counted, alerts: readonly KeptAlert[]): void {
    this.unwritten.giveBack(counted);
    this.alerts = [...alerts, ...this.alerts].slice(-MAX_ALERTS);
  }

  private async measure(): Promise<void> {
    const { backlog, instances, unknown } = await this.reads.run(async (bounded) => ({
      backlog: await this.relays.backlog(bounded),
      instances: await this.relays.list(bounded),
      unknown: await this.relays.unknownNames(bounded, UNKNOWN_AGE_MS, SILENT_MS),
    }));
    this.watch.backlog(backlog);
    measureBacklog(backlog);
    this.watch.unknown(unknown);
    const gauge = (metric: string, value: number) => ({ source: '', metric: `max:${metric}`, value });
    const metrics = [
      gauge('backlog-ms', Math.round(backlog.overdue[0]?.ageMs ?? 0)),
      gauge('pending', backlog.pending),
      gauge('dead', backlog.dead),
      gauge(
        'running',
        instances.reduce((sum, one) => sum + one.running, 0),
      ),
    ];
    await this.onOne((manager) => this.store.flush(manager, { duplicates: [], secrets: [], metrics }));
  }

  private async prune(manager: EntityManager): Promise<void> {
    await this.store.prune(manager, STATS_AGE_MS);
    await this.relays.prune(manager, INSTANCE_AGE_MS);
    await this.alertStore.prune(manager, KEEP_ALERTS);
    await this.explainer.prune(manager);
    await this.destinations.prune(manager);
  }

  private beat() {
    return {
      id: this.instance.id,
      host: hostname(),
      pid: process.pid,
      node: process.version,
      relays: this.options.relay !== false,
      listens: this.listener.listening,
      running: this.relay.running,
      names: this.registry.names(),
      sources: [...this.options.sources.keys()],
    };
  }

  /** Each dead letter has its own row to be found by; its alert is not kept beside it. */
  private keep(alert: Alert): void {
    if (alert.kind === 'dead-letter' || this.alerts.length >= MAX_ALERTS) return;
    const { kind, ...facts } = alert;
    this.alerts.push({ at: new Date(), kind, subject: subjectOf(alert), facts });
  }

  private turn(): void {
    void this.quietly(() => this.round()).then(() => {
      if (this.state === 'started') this.timers.after(TIMER, ROUND_MS, () => this.turn());
    });
  }

  private async quietly(work: () => Promise<void>): Promise<void> {
    try {
      await work();
      this.failing = false;
    } catch (error) {
      // Once, until it works again: an application without the desk's tables should not log this every five seconds.
      if (!this.failing)
        this.logger.warn(logLine(`counts could not be written down: ${storeErrorText(error)}`, {}));
      this.failing = true;
    }
  }
}

function subjectOf(alert: Alert): string {
  if ('event' in alert && alert.event !== undefined) return `${alert.event.source} ${alert.event.eventId}`;
  if ('source' in alert) return alert.source;
  return 'name' in alert ? alert.name : '';
}
