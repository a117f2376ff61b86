import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { Handler } from '../../handlers/handler.registry.js';
import { PausedNames } from '../../outbox/relay/paused-names.js';

type Named = Pick<Handler, 'name' | 'was'>;

/** A person paused the work after it was checked and before it began. The delivery decides again. */
export class PausedMeanwhile extends Error {}

/** The work that a delivery must not run now, because a person has paused it. */
@Injectable()
export class PausedWork {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly paused: PausedNames,
  ) {}

  /** Those of a source's handlers that may run. */
  async withoutPaused<T extends Named>(source: string, handlers: readonly T[]): Promise<T[]> {
    if (handlers.length === 0) return [];
    const paused = await this.paused.read(this.options.claimTimeoutMs);
    if (paused.has('source', source)) return [];
    return handlers.filter((handler) => !paused.hasWork('handler', handler));
  }

  /** Whether one of a source's handlers may not run. */
  async isAnyPaused(source: string, handlers: readonly Named[]): Promise<boolean> {
    return (await this.withoutPaused(source, handlers)).length < handlers.length;
  }

  /**
   * Has `decide` decide again where something was paused while it did, so that nothing begins after a pause has returned.
   * @param decide calls `check` in the turn in which user code begins; it throws PausedMeanwhile
   */
  async retryAfterPause<T>(decide: (check: () => void) => Promise<T>): Promise<T> {
    for (;;) {
      const before = this.paused.changes;
      const check = () => {
        if (this.paused.changes !== before) throw new PausedMeanwhile();
      };
      try {
        return await decide(check);
      } catch (error) {
        if (!(error instanceof PausedMeanwhile)) throw error;
      }
    }
  }
}
