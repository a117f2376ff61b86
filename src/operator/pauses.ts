import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { z } from 'zod';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { didYouMean } from '../core/options/did-you-mean.js';
import { knownSource } from '../core/options/known-source.js';
import { checkInput } from '../core/options/schema.js';
import { WebhookInboxError, type ErrorCode } from '../core/errors.js';
import { logLine } from '../core/log/log.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { endsWithin } from '../core/time/waits.js';
import { firstName, HandlerRegistry, namesOf } from '../handlers/handler.registry.js';
import { LeasedWork } from '../outbox/relay/leased-work.js';
import { PausedNames } from '../outbox/relay/paused-names.js';
import { WakeUp } from '../outbox/wake/wake-up.js';
import { Audit } from '../storage/desk/audit.js';
import { DestinationStore } from '../storage/destination.store.js';
import { PauseStore, type Pause, type PauseKind } from '../storage/pause.store.js';
import type { Decider } from '../core/decider.js';
import { RelayStore } from '../storage/desk/relay.store.js';

/** For how long a pause waits for a lease that may have been decided on before it, and for prefetched rows to be given back. */
const LEASE_MS = 1_000;

const KIND = z.enum(['source', 'handler', 'effect']);
const UNKNOWN = {
  source: 'UNKNOWN_SOURCE',
  handler: 'UNKNOWN_HANDLER',
  effect: 'UNKNOWN_EFFECT',
} as const satisfies Record<PauseKind, ErrorCode>;

/**
 * Pauses sources, handlers and effects on all instances, within a second. Running work goes on. `pause` waits for this instance's lease
 * under way, a second at most, and releases prefetched rows. After that nothing of the paused work begins here, in the relay or in a
 * delivery. Events are still received and claimed, and the relay runs them after the pause, also where a delivery would have waited for its
 * handlers. A redelivery meanwhile is answered 503. A route with `@UseWebhook` is run by deliveries alone. It is answered 503 and nothing
 * is claimed, so an event is lost if its provider gives up during the pause. A paused source stops its handlers, and not the effects that
 * they have enqueued.
 */
@Injectable()
export class Pauses {
  private readonly logger = new InboxLogger();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
    private readonly store: PauseStore,
    private readonly paused: PausedNames,
    private readonly leased: LeasedWork,
    private readonly wakeUp: WakeUp,
    private readonly audit: Audit,
    private readonly relays: RelayStore,
    private readonly destinations: DestinationStore,
  ) {}

  /**
   * @returns false when it was paused already
   * @throws WebhookInboxError UNKNOWN_SOURCE, UNKNOWN_HANDLER, UNKNOWN_EFFECT: a pause of nothing would look like one; InputRefused
   * without `by` or `reason`
   */
  async pause(kind: PauseKind, asked: string, decider: Decider): Promise<boolean> {
    const name = await this.known(kind, asked);
    return this.audit.record({ action: 'pause', target: `${kind} ${name}` }, decider, async () => {
      const { by, reason } = decider;
      const changed = await this.store.pause(this.dataSource.manager, kind, name, by, reason);
      this.paused.forget();
      await endsWithin(this.leased.givePausedBack(), LEASE_MS);
      this.logger.log(
        logLine(changed ? 'paused' : 'nothing changed: it was paused already', { kind, name, by, reason }),
      );
      return [changed, { changed }];
    });
  }

  /**
   * @param kind `destination`: of effects, which is called again at once
   * @returns false when it was not paused
   * @throws InputRefused without `by` or `reason`
   */
  async resume(kind: PauseKind | 'destination', asked: string, decider: Decider): Promise<boolean> {
    if (kind === 'destination') return this.resumeDestination(asked, decider);
    checkInput(KIND, kind, 'kind');
    const work = this.work(kind, asked);
    // A name that is unknown here may have been paused by an instance that knows it.
    const name = work === undefined ? asked : firstName(work);
    const names = work === undefined ? [asked] : namesOf(work);
    return this.audit.record({ action: 'resume', target: `${kind} ${name}` }, decider, async () => {
      const { by, reason } = decider;
      const changed = await this.store.resume(this.dataSource.manager, kind, names);
      this.paused.forget();
      this.logger.log(
        logLine(changed ? 'resumed' : 'nothing changed: it was not paused', { kind, name, by, reason }),
      );
      if (changed) this.wakeUp.wake();
      return [changed, { changed }];
    });
  }

  /** Calls a destination again that has failed too often, or asked to wait. */
  private resumeDestination(name: string, decider: Decider): Promise<boolean> {
    return this.audit.record({ action: 'resume', target: `destination ${name}` }, decider, async () => {
      const { by, reason } = decider;
      const changed = await this.destinations.resume(this.dataSource.manager, name);
      this.paused.forget();
      this.logger.log(
        logLine(changed ? 'resumed' : 'nothing changed: it is called as usual', {
          kind: 'destination',
          name,
          by,
          reason,
        }),
      );
      if (changed) this.wakeUp.wake();
      return [changed, { changed }];
    });
  }

  /**
   * Of a handler or an effect the first name, which every version knows: a renaming ends no pause. A name that is unknown here may be
   * another instance's: to the command line, which may have the tables alone, all are.
   * @throws WebhookInboxError UNKNOWN_SOURCE, UNKNOWN_HANDLER, UNKNOWN_EFFECT
   * @internal
   */
  async known(kind: PauseKind, name: string): Promise<string> {
    checkInput(KIND, kind, 'kind');
    const work = this.work(kind, name);
    if (work !== undefined) return firstName(work);
    if (kind === 'source' ? this.options.sources.has(name) : this.registry.routes().has(name)) return name;
    const { manager } = this.dataSource;
    const elsewhere = await (kind === 'source' ? this.relays.sources(manager) : this.relays.names(manager));
    if (elsewhere.includes(name)) return name;
    return this.refuse(kind, name, elsewhere);
  }

  /** @throws WebhookInboxError with the nearest name, of those that are known here where there are any */
  private refuse(kind: PauseKind, name: string, elsewhere: readonly string[]): never {
    if (kind === 'source' && this.options.sources.size > 0) knownSource(this.options, name);
    if (kind === 'handler' && this.registry.handlers().size > 0) this.registry.knownHandler(name);
    if (kind === 'effect' && this.registry.effects().size > 0) this.registry.knownEffect(name);
    const hint = didYouMean(name, elsewhere) || ': no instance of the last hour has reported its names';
    throw new WebhookInboxError(UNKNOWN[kind], `No instance has the ${kind} '${name}'${hint}`);
  }

  /** Under the names of today. */
  async list(): Promise<Pause[]> {
    const pauses = await this.store.list(this.dataSource.manager);
    return pauses.map((pause) => ({ ...pause, name: this.work(pause.kind, pause.name)?.name ?? pause.name }));
  }

  private work(kind: PauseKind, name: string) {
    if (kind === 'source') return undefined;
    return kind === 'handler' ? this.registry.handler(name) : this.registry.effect(name);
  }
}
