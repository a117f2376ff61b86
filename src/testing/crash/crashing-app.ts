import type { INestApplicationContext } from '@nestjs/common';
import type { DataSource, EntityManager } from 'typeorm';
import { Instance } from '../../core/instance.js';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import { LeasedWork } from '../../outbox/relay/leased-work.js';
import { endsWithin } from '../../core/time/waits.js';
import { registryOf, wrapWork } from '../wrapped-work.js';
import type { CrashPlan } from './crash-plan.js';
import { running, type Running } from './outside-calls.js';
import { never, WatchedConnections } from './watched-connections.js';

/** How long the close of a crashed application may take. Its hanging code never ends. */
const CLOSE_MS = 2_000;

/** A call of an effect's method. */
export interface CalledEffect {
  readonly name: string;
  readonly key: string;
}

/** An instance of the application that can crash: its connections are destroyed, and no code of its goes on. */
export class CrashingApp {
  readonly dataSource: DataSource;
  /** Ends when it crashes. */
  readonly crashed: Promise<void>;
  private readonly connections: WatchedConnections;

  constructor(
    readonly app: INestApplicationContext,
    private readonly plan: CrashPlan,
    private readonly onEffect: (call: CalledEffect) => void,
  ) {
    this.dataSource = app.get<DataSource>(WEBHOOKS_DATA_SOURCE);
    let onCrash: () => void = () => undefined;
    this.crashed = new Promise((resolve) => {
      onCrash = resolve;
    });
    this.connections = new WatchedConnections(this.dataSource, plan, () => {
      dropRequests(app);
      onCrash();
    });
    const registry = registryOf(app);
    for (const handler of new Set(registry.handlers().values())) {
      const by: Running = { kind: 'handler', name: handler.name, isDead: this.isDead };
      wrapWork(handler, (code, event, context) => running.run(by, () => this.alive(code(event, context))));
    }
    for (const effect of new Set(registry.effects().values())) {
      wrapWork(effect, (code, payload, context) =>
        this.call({ name: effect.name, key: context.key ?? '' }, () => code(payload, context)),
      );
    }
  }

  get manager(): EntityManager {
    return this.dataSource.manager;
  }

  /** Server processes of the connections that its crash destroyed. */
  get pids(): readonly number[] {
    return this.connections.pids;
  }

  get owner(): string {
    return this.app.get(Instance).id;
  }

  readonly isDead = (): boolean => this.connections.areDead;

  /** Closes it, whether it has crashed or not. */
  async end(): Promise<void> {
    if (!this.isDead()) return this.app.close();
    this.connections.end();
    const closed = this.app
      .get(LeasedWork)
      .finish(0)
      .then(() => this.app.close());
    await endsWithin(
      closed.catch(() => undefined),
      CLOSE_MS,
    );
  }

  private async call(called: CalledEffect, code: () => unknown): Promise<unknown> {
    const by: Running = { kind: 'effect', ...called, isDead: this.isDead };
    const passing = this.plan.pass('call', ` of effect '${called.name}'`);
    if (this.isDead() || passing.before) return this.connections.destroy();
    this.onEffect(called);
    const result = await running.run(by, () => this.alive(code()));
    return passing.after ? this.connections.destroy() : result;
  }

  /** A process that was killed runs none of its code any more. */
  private async alive(work: unknown): Promise<unknown> {
    try {
      const result = await work;
      return this.isDead() ? await never() : result;
    } catch (error) {
      if (this.isDead()) return never();
      throw error;
    }
  }
}

/** Requests that wait for the process see their connections end. */
function dropRequests(app: INestApplicationContext): void {
  if (!('getHttpServer' in app) || typeof app.getHttpServer !== 'function') return;
  const server: unknown = app.getHttpServer();
  const { closeAllConnections } = Object(server) as { readonly closeAllConnections?: () => void };
  closeAllConnections?.call(server);
}
