import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { onConnection } from '../storage/connection.js';
import { PauseStore, type PauseKind } from '../storage/pause.store.js';

const FRESH_MS = 1_000;

/** What is paused right now. */
export interface Paused {
  has(kind: PauseKind, name: string): boolean;
}

/** Reads what is paused, at most once a second: a pause takes effect within that time on every instance. */
@Injectable()
export class PausedNames {
  private readAt = -Infinity;
  private names = new Set<string>();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: PauseStore,
  ) {}

  /** @param endAfterMs when a connection that does not answer is given up */
  async read(endAfterMs: number): Promise<Paused> {
    if (performance.now() - this.readAt > FRESH_MS) {
      const pauses = await onConnection(this.dataSource, (manager) => this.store.list(manager), endAfterMs);
      this.names = new Set(pauses.map(({ kind, name }) => keyOf(kind, name)));
      this.readAt = performance.now();
    }
    const { names } = this;
    return { has: (kind, name) => names.has(keyOf(kind, name)) };
  }

  /** Reads again at the next look: this process has just changed something. */
  forget(): void {
    this.readAt = -Infinity;
  }
}

const keyOf = (kind: PauseKind, name: string) => JSON.stringify([kind, name]);
