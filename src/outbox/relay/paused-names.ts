import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { WEBHOOKS_DATA_SOURCE } from '../../core/tokens.js';
import type { Handler } from '../../handlers/handler.registry.js';
import { onConnection } from '../../storage/postgres/connection.js';
import { Destinations } from '../runs/destinations.js';
import { PauseStore, type PauseKind } from '../../storage/pause.store.js';

const FRESH_MS = 1_000;

type Named = Pick<Handler, 'name' | 'was'>;

/** The names that are paused at this moment. */
export interface Paused {
  has(kind: PauseKind, name: string): boolean;
  /** A pause under any of its names is one: the command line, which has the tables alone, knows no former names. */
  hasWork(kind: PauseKind, work: Named): boolean;
}

/** Reads what is paused, at most once a second: a pause takes effect within that time on every instance. */
@Injectable()
export class PausedNames {
  private readAt = -Infinity;
  private names: ReadonlyMap<string, ReadonlySet<string>> = new Map();
  private reading: Promise<void> | undefined;
  /** How often this process has changed what is paused. */
  changes = 0;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly store: PauseStore,
    private readonly destinations: Destinations,
  ) {}

  /** @param endAfterMs when a connection that does not answer is given up */
  async read(endAfterMs: number): Promise<Paused> {
    // Callers that come during a read share its answer. After `forget` that read brings none, so they read again.
    while (performance.now() - this.readAt > FRESH_MS) await (this.reading ?? this.begin(endAfterMs));
    return this.current();
  }

  /** The last answer, however old. Undefined when this process has changed a pause since. */
  get known(): Paused | undefined {
    return this.readAt === -Infinity ? undefined : this.current();
  }

  /** The next caller reads again, since this process has just changed a pause. */
  forget(): void {
    this.changes += 1;
    this.readAt = -Infinity;
    this.reading = undefined;
  }

  private current(): Paused {
    const { names } = this;
    return {
      has: (kind, name) => names.get(kind)?.has(name) === true,
      hasWork: (kind, { name, was }) => {
        const paused = names.get(kind);
        return paused !== undefined && (paused.has(name) || was.some((former) => paused.has(former)));
      },
    };
  }

  private begin(endAfterMs: number): Promise<void> {
    const reading = this.load(endAfterMs).then((names) => {
      // This read was forgotten meanwhile, and may be from before the change.
      if (this.reading !== reading) return;
      this.names = names;
      this.readAt = performance.now();
    });
    this.reading = reading;
    const ended = () => {
      if (this.reading === reading) this.reading = undefined;
    };
    reading.then(ended, ended);
    return reading;
  }

  private async load(endAfterMs: number): Promise<Map<PauseKind, Set<string>>> {
    const { changes } = this.destinations;
    const held = await onConnection(this.dataSource, (manager) => this.store.held(manager), endAfterMs);
    const { pauses, destinations } = held;
    this.destinations.learn(destinations, changes);
    const names = new Map<PauseKind, Set<string>>();
    for (const { kind, name } of pauses) names.set(kind, (names.get(kind) ?? new Set()).add(name));
    return names;
  }
}
