import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { WEBHOOKS_DATA_SOURCE } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { inTransaction } from '../storage/connection.js';
import { TurnStore, type TurnCursor } from '../storage/turn.store.js';

const MAX_LOOKS = 10;

/** Gives turns to waiting keys before a lease looks; costs nothing where no handler and no effect has a key. */
@Injectable()
export class Turns {
  private cursor: TurnCursor | undefined;

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    private readonly registry: HandlerRegistry,
    private readonly store: TurnStore,
  ) {}

  /** @param endAfterMs when a connection that does not answer is given up */
  async give(endAfterMs: number): Promise<void> {
    const works = [...this.registry.handlers(), ...this.registry.effects()].filter(
      ([, work]) => work.ordered,
    );
    if (works.length === 0) return;
    const names = works.map(([name]) => name);
    const blocked = works.filter(([, work]) => work.onDead === 'block').map(([name]) => name);
    // Keys whose turn somebody has are looked at too: past a full look at those there may be keys that nobody serves.
    for (let look = 0; look < MAX_LOOKS; look += 1) {
      const result = await inTransaction(
        this.dataSource.manager,
        1_000,
        (manager) => this.store.give(manager, names, blocked, this.cursor),
        endAfterMs,
      );
      if (result === undefined) return;
      this.cursor = result.next;
      if (result.given > 0 || result.next === undefined) return;
    }
  }
}
