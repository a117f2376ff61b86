import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { during } from '../../core/request.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { Source } from '../../core/options/resolve-source.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import type { HandlerCode } from '../../outbox/runs/handler.runner.js';
import { ClaimStore } from '../../storage/claim.store.js';
import type { IncomingEvent, VerifiedDelivery } from '../delivery.js';
import { InlineDispatcher } from './inline.dispatcher.js';
import type { InlineWork } from './inline-recovery.js';
import { PausedWork } from './paused-work.js';
import { ProviderRetries } from './provider-retries.js';
import { orUnavailable, PAUSED, unlessOneEventsFault, type Verdict } from '../answers.js';

const SHUTTING_DOWN: Verdict = { kind: 'unavailable', why: 'shutting down' };

/**
 * Runs one event while its delivery waits, within the time that is left for the answer. Undefined where the event is for the relay:
 * it is claimed together with the others.
 */
export type RunOne = (event: IncomingEvent, ackTimeoutMs: number) => Promise<Verdict | undefined>;

/** Runs the work of deliveries: inline handlers, routes of the application, and sources whose providers retry. */
@Injectable()
export class DeliveryRuns {
  private draining = false;
  private readonly running = new Set<Promise<unknown>>();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly claims: ClaimStore,
    private readonly inline: InlineDispatcher,
    private readonly providerRetries: ProviderRetries,
    private readonly paused: PausedWork,
  ) {}

  /** How a delivery runs an event of this source. Undefined where the relay runs everything. */
  runnerFor(source: Source): RunOne | undefined {
    if (source.retries === 'own' && !this.registry.hasInline(source.name)) return undefined;
    return (event, ackTimeoutMs) =>
      this.paused.retryAfterPause((check) => this.runOne({ ...source, ackTimeoutMs }, event, check));
  }

  /** How a delivery runs an event with the code of an application's own route. */
  routeRunnerFor(source: Source, name: string, code: HandlerCode): RunOne {
    const retry = { baseMs: 0, capMs: 0, maxAttempts: source.routeMaxAttempts };
    const route: InlineWork = { name, source: source.name, retry, classify: undefined, code };
    return (event, ackTimeoutMs) =>
      this.paused.retryAfterPause((check) =>
        this.runRoute({ ...source, ackTimeoutMs, retries: 'provider' }, event, route, check),
      );
  }

  /** Runs events one after the other: one answer, and one time for all that it waits for. */
  async run(
    { source, request }: VerifiedDelivery,
    events: readonly IncomingEvent[],
    runOne: RunOne,
  ): Promise<{ readonly ran: readonly Verdict[]; readonly left: readonly IncomingEvent[] }> {
    const ran: Verdict[] = [];
    const left: IncomingEvent[] = [];
    const startedAt = performance.now();
    for (const event of events) {
      const leftMs = Math.ceil(source.ackTimeoutMs - (performance.now() - startedAt));
      const ms = Math.max(leftMs, 0) + this.options.claimTimeoutMs;
      const isRunnable = event.unusable === undefined;
      const verdict = isRunnable
        ? await unlessOneEventsFault(() =>
            orUnavailable(during(request, this.track(runOne(event, leftMs))), ms),
          )
        : undefined;
      if (verdict === undefined) left.push(event);
      else ran.push(verdict);
    }
    return { ran, left };
  }

  /** From now on inline work is left to other processes, and sources whose provider retries are answered 503. */
  startDraining(): void {
    this.draining = true;
  }

  get isDraining(): boolean {
    return this.draining;
  }

  /** How many deliveries wait for handlers. */
  get waiting(): number {
    return this.running.size;
  }

  /** Waits for what deliveries wait for, up to the time in which all of them have been answered. */
  async finish(claims: Promise<unknown>): Promise<void> {
    const longest = Math.max(...[...this.options.sources.values()].map(({ ackTimeoutMs }) => ackTimeoutMs));
    const ended = Promise.allSettled([...this.running, claims]);
    await orUnavailable(ended, longest + this.options.claimTimeoutMs);
  }

  private async runOne(
    source: Source,
    event: IncomingEvent,
    check: () => void,
  ): Promise<Verdict | undefined> {
    const handlers = this.registry.match(source.name, event.type);
    if (source.retries === 'own') return this.runInline(source, event, handlers, check);
    if (this.draining) return SHUTTING_DOWN;
    if (await this.paused.isAnyPaused(source.name, handlers)) return this.answerWhilePaused(event);
    if (source.ackTimeoutMs <= 0) return { kind: 'failed' };
    const inline = await this.runInline(source, event, handlers, check);
    return inline ?? this.providerRetries.dispatch(source, event, handlers);
  }

  /** Undefined where no handler must run inline. */
  private async runInline(
    source: Source,
    event: IncomingEvent,
    handlers: readonly Handler[],
    check: () => void,
  ): Promise<Verdict | undefined> {
    if (this.draining || source.ackTimeoutMs <= 0) return undefined;
    const wanted = handlers.filter((handler) => handler.inline);
    const inline = source.retries === 'own' ? await this.paused.withoutPaused(source.name, wanted) : wanted;
    if (inline.length === 0) return undefined;
    const others = handlers.filter((handler) => !inline.includes(handler));
    const works = inline.map((handler) => asInlineWork(handler, check));
    return this.inline.dispatch(source, event, works, others);
  }

  private async runRoute(
    source: Source,
    event: IncomingEvent,
    route: InlineWork,
    check: () => void,
  ): Promise<Verdict> {
    if (this.draining) return SHUTTING_DOWN;
    if (source.ackTimeoutMs <= 0) return { kind: 'failed' };
    const handlers = this.registry.match(source.name, event.type);
    if (await this.paused.isAnyPaused(source.name, [{ name: route.name, was: [] }, ...handlers]))
      return PAUSED;
    const inline = handlers.filter((handler) => handler.inline).map((one) => asInlineWork(one, check));
    const others = handlers.filter((handler) => !handler.inline);
    return this.inline.dispatch(source, event, [withPauseCheck(route, check), ...inline], others);
  }

  /**
   * A new event is claimed, for the relay to run after the pause: a pause may last longer than the provider goes on trying. One that
   * is known waits for its redelivery, or for the relay.
   */
  private async answerWhilePaused(event: IncomingEvent): Promise<Verdict | undefined> {
    const claim = await this.claims.find(this.dataSource.manager, event);
    return claim === undefined ? undefined : PAUSED;
  }

  private track<T>(work: Promise<T>): Promise<T> {
    const ended = work.finally(() => this.running.delete(ended));
    this.running.add(ended);
    return ended;
  }
}

function asInlineWork(handler: Handler, check: () => void): InlineWork {
  return withPauseCheck({ ...handler, code: (event, context) => handler.invoke(event, context) }, check);
}

/** Checks for a pause once more in the turn in which the code begins. */
function withPauseCheck(work: InlineWork, check: () => void): InlineWork {
  const code: HandlerCode = (event, context) => {
    check();
    return work.code(event, context);
  };
  return { ...work, code };
}
