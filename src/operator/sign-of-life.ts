import { hostname } from 'node:os';
import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { Instance } from '../core/instance.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { LeasedWork } from '../outbox/relay/leased-work.js';
import { WakeListener } from '../outbox/wake/wake.listener.js';
import { onConnection } from '../storage/postgres/connection.js';
import { RelayStore } from '../storage/desk/relay.store.js';

/** When a connection is given up that does not answer: a half-open one would hold the rounds, and a shutdown, for ever. */
const END_MS = 5_000;

/** Tells the other processes that this one lives, and which names and sources it has. */
@Injectable()
export class SignOfLife {
  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly relays: RelayStore,
    private readonly instance: Instance,
    private readonly work: LeasedWork,
    private readonly listener: WakeListener,
    private readonly registry: HandlerRegistry,
  ) {}

  async give(): Promise<void> {
    const sign = {
      id: this.instance.id,
      host: hostname(),
      pid: process.pid,
      node: process.version,
      relays: this.options.relay !== false,
      listens: this.listener.listening,
      running: this.work.running,
      names: this.registry.names(),
      sources: [...this.options.sources.keys()],
    };
    await onConnection(this.dataSource, (manager) => this.relays.beat(manager, sign), END_MS);
  }

  /** Removes this process from the list, at its end. */
  async end(): Promise<void> {
    await onConnection(this.dataSource, (manager) => this.relays.leave(manager, this.instance.id), END_MS);
  }
}
