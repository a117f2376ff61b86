import type { Provider } from '../../core/provider.js';
import type { WebhookRequest } from '../../core/request.js';
import type { TrialBudget } from './trial-budget.js';

/** A form of the request that may have been signed, and a secret that may have signed it. */
export interface Trial {
  readonly provider: Provider;
  readonly request: WebhookRequest;
  readonly secrets: readonly string[];
}

/** The cost of one check at any body size: a hash of some kilobytes. */
const OVERHEAD = 2_048;
const MAX_NAMED = 6;

/** Tries changes that would have made a rejected request right, within a budget. Knows those tried and those not tried. */
export class Trials {
  private readonly tried: string[] = [];
  private readonly untried: string[] = [];

  constructor(private readonly budget: TrialBudget) {}

  /**
   * The first candidate that verifies.
   * @param what names them, after their number
   * @param trialOf undefined for one that cannot be tried, which `leftOut` has recorded
   * @param making the cost to write one, in hashes of it
   */
  async first<T>(
    what: string,
    candidates: Iterable<T>,
    trialOf: (candidate: T) => Trial | undefined,
    making = 0,
  ): Promise<T | undefined> {
    let count = 0;
    try {
      for (const candidate of this.made(candidates)) {
        const trial = trialOf(candidate);
        if (trial === undefined || trial.secrets.length === 0) continue;
        if (!(await this.pay(trial, making))) {
          this.leftOut(`${count === 0 ? 'any' : 'further'} ${what} (the limit of one round was reached)`);
          return undefined;
        }
        count += 1;
        if (await this.verifies(trial)) return candidate;
      }
      return undefined;
    } finally {
      if (count > 0) this.tried.push(`${count} ${what}`);
    }
  }

  leftOut(what: string): void {
    this.untried.push(what);
  }

  /** Two sentences for a person. */
  summary(): string {
    return [sentence('Tried', this.tried), sentence('Not tried', this.untried)].filter(Boolean).join(' ');
  }

  private async verifies({ provider, request, secrets }: Trial): Promise<boolean> {
    try {
      await this.timed(() => provider.verify(request, secrets));
      return true;
    } catch {
      return false;
    }
  }

  /** The candidates, with the time counted that it takes to make each: a body is written anew. */
  private *made<T>(candidates: Iterable<T>): Generator<T> {
    const iterator = candidates[Symbol.iterator]();
    for (;;) {
      const next = this.timed(() => iterator.next());
      if (next.done === true) return;
      yield next.value;
    }
  }

  /** Counts the time until the check waits for something: so long it has this thread. */
  private timed<T>(check: () => T): T {
    const startedAt = performance.now();
    try {
      return check();
    } finally {
      this.budget.recordWork(performance.now() - startedAt);
    }
  }

  private async pay({ request, secrets }: Trial, making: number): Promise<boolean> {
    return this.budget.pay((request.rawBody.length + OVERHEAD) * (secrets.length + making));
  }
}

function sentence(begin: string, parts: readonly string[]): string {
  if (parts.length === 0) return '';
  const more = parts.length > MAX_NAMED ? [`${parts.length - MAX_NAMED} more`] : [];
  return `${begin}: ${[...parts.slice(0, MAX_NAMED), ...more].join('; ')}.`;
}
