import { Inject, Injectable } from '@nestjs/common';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { runAround } from '../../core/around.js';
import { orAborted } from '../../core/time/waits.js';
import { outcomeOf } from '../../core/lazy.js';
import { PermanentError } from '../../core/errors.js';
import { logLine } from '../../core/log/log.js';
import type { CompletionContext } from '../../core/context.js';
import type { ProbeAnswer } from '../../core/options/work-options.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import type { ParkedReason } from '../../core/states.js';
import type { Effect } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { tracksDoubt } from './failure-policy.js';
import { LoneStatements } from './lone-statements.js';
import { rowFacts, runInfo } from '../relay/row-facts.js';

/** Work that commits with the completion of an effect. */
export type Completion = (context: CompletionContext) => unknown;

/** How to go on with a leased effect. */
export type Checked =
  /** `begins`: the call is recorded before it is made. `inDoubt`: an earlier attempt may have got through all the same. */
  | { readonly kind: 'call'; readonly begins: boolean; readonly inDoubt: boolean }
  /** An earlier attempt got through. */
  | { readonly kind: 'done'; readonly result: unknown; readonly completion?: Completion }
  | { readonly kind: 'park'; readonly reason: ParkedReason };

/** Before an effect is called: whether an earlier attempt may have got through, and whether its key still protects. */
@Injectable()
export class EffectDoubts {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly module: ResolvedOptions,
    private readonly store: OutboxStore,
    private readonly statements: LoneStatements,
  ) {}

  /** @throws what the probe throws: the attempt has failed without a call */
  async check(effect: Effect, row: LeasedRow, payload: unknown, signal: AbortSignal): Promise<Checked> {
    const forgotten = row.attempt > 1 && row.ageMs > effect.keyRetentionMs;
    // An earlier attempt made its call and kept the result. Only the completion is missing. A method that ignores `previous` makes its call
    // again, so its key must still protect from a duplicate.
    if (row.previousResult !== undefined)
      return forgotten
        ? { kind: 'park', reason: 'key-expired' }
        : { kind: 'call', begins: false, inDoubt: false };
    let completion: Completion | undefined;
    const answer = await this.probe(effect, row, payload, signal, (work) => {
      completion = work;
    });
    if (typeof answer === 'object') return { kind: 'done', result: answer.done, completion };
    if (answer === 'done') return { kind: 'done', result: undefined, completion };
    if (answer === 'unknown' && effect.options.inDoubt === 'park')
      return { kind: 'park', reason: 'in-doubt' };
    if (answer !== 'not-done' && forgotten) return { kind: 'park', reason: 'key-expired' };
    if (!tracksDoubt(effect)) return { kind: 'call', begins: false, inDoubt: false };
    return { kind: 'call', begins: true, inDoubt: row.begun && answer !== 'not-done' };
  }

  /** Records that the call is about to be made. False: the lease is lost, and it may not be made. */
  begin(row: LeasedRow): Promise<boolean> {
    return this.statements.send((manager) => this.store.begin(manager, row));
  }

  /** Undefined when nothing is in doubt and there was no probe. */
  private async probe(
    effect: Effect,
    row: LeasedRow,
    payload: unknown,
    signal: AbortSignal,
    onComplete: (work: Completion) => void,
  ): Promise<ProbeAnswer | undefined> {
    const { options } = effect;
    if (options.probe === undefined) return row.begun ? 'unknown' : undefined;
    if (!row.begun && options.probeFirst !== true) return undefined;
    const complete = async (work: Completion) => onComplete(work);
    const context = { key: row.id, signal, complete };
    const ask = () => options.probe!.call(effect.instance, payload, context);
    const name = `the probe of ${effect.name}`;
    const asking = runAround(this.module.around, runInfo(row, 'probe'), async () =>
      probeAnswer(effect.name, await outcomeOf(ask, name, signal)),
    );
    const answer = await orAborted(asking, signal);
    this.logger.log(
      logLine('probed', rowFacts(row, { answer: typeof answer === 'object' ? 'done' : answer })),
    );
    return answer;
  }
}

/**
 * The answer of an effect's probe.
 * @throws PermanentError for an answer that a probe has not: taken for 'unknown', it could have the call made again
 */
export function probeAnswer(effect: string, answer: unknown): ProbeAnswer {
  if (isAnswer(answer)) return answer;
  const received = answer === null ? 'null' : typeof answer;
  throw new PermanentError(
    `the probe of ${effect} returned a value of type ${received}: expected 'done', 'not-done', 'unknown' or { done: result }`,
  );
}

function isAnswer(answer: unknown): answer is ProbeAnswer {
  if (typeof answer === 'object' && answer !== null) return 'done' in answer;
  return answer === 'done' || answer === 'not-done' || answer === 'unknown';
}
