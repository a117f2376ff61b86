import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { EffectKeyRequired, WebhookInboxError } from '../../core/errors.js';
import { errorText } from '../../core/log/log.js';
import { outboxId } from '../../core/ids.js';
import { traceOf } from '../../core/telemetry/tracing.js';
import type { Enqueued, EnqueueOptions } from '../../core/context.js';
import { firstName, HandlerRegistry, type Effect } from '../../handlers/handler.registry.js';
import { orderKey } from '../../handlers/order-key.js';
import type { LeasedRow, NamedEffect } from '../../storage/leased-rows.js';
import { EffectStore, type NewEffect } from '../../storage/effect.store.js';
import { ReplayStore } from '../../storage/desk/replay.store.js';
import { checkEnqueue } from './enqueue.options.js';

interface Waiting {
  readonly effect: NewEffect;
  readonly resolve: (inserted: boolean) => void;
  readonly reject: (error: unknown) => void;
}

/** The stores that an enqueue uses. */
@Injectable()
export class EnqueueStores {
  private readonly waiting = new WeakMap<EntityManager, Waiting[]>();

  constructor(
    readonly effects: EffectStore,
    readonly replays: ReplayStore,
    readonly registry: HandlerRegistry,
  ) {}

  /**
   * Inserts an effect. Returns false when it exists already. Effects that are enqueued together, as by Promise.all over a batch, go in one
   * statement. The statement is sent in the same turn of the event loop: a savepoint that the handler sets later would roll it back.
   */
  insert(manager: EntityManager, effect: NewEffect): Promise<boolean> {
    return new Promise((resolve, reject) => {
      const waiting = this.waiting.get(manager);
      if (waiting !== undefined) {
        waiting.push({ effect, resolve, reject });
        return;
      }
      this.waiting.set(manager, [{ effect, resolve, reject }]);
      queueMicrotask(() => void this.send(manager));
    });
  }

  private async send(manager: EntityManager): Promise<void> {
    const all = this.waiting.get(manager)!;
    this.waiting.delete(manager);
    while (all.length > 0) {
      const sent = all.splice(0, fitting(all));
      try {
        const inserted = await this.effects.enqueue(
          manager,
          sent.map(({ effect }) => effect),
        );
        for (const { effect, resolve } of sent) resolve(inserted.has(effect.id));
      } catch (error) {
        for (const { reject } of [...sent, ...all.splice(0)]) reject(error);
      }
    }
  }
}

/** Of one statement. */
const MAX_BYTES = 4 * 1024 * 1024;

/** How many of these go in one statement: at least one. */
function fitting(waiting: readonly Waiting[]): number {
  let bytes = 0;
  const over = waiting.findIndex(({ effect }) => (bytes += effect.payload.length) > MAX_BYTES);
  return over === -1 ? waiting.length : Math.max(over, 1);
}

/** The row whose run enqueues. */
type Parent = Pick<LeasedRow, 'id' | 'generation' | 'event' | 'rerun' | 'trace'>;

/** An effect that a run inserted, of a handler that was done for the event before. */
interface Added extends NamedEffect {
  readonly id: string;
  /** Ids that it would have if an earlier run had enqueued it. */
  readonly earlier: readonly string[];
}

/** The `enqueue` of one run. An effect's id is derived from the run's row, so a repeated run enqueues the same rows. */
export class RunEnqueue {
  private readonly seen = new Set<string>();
  /** Names of the rows that are there for a relay once the run's transaction has committed. */
  readonly woken: string[] = [];
  private readonly added: Added[] = [];

  constructor(
    private readonly stores: EnqueueStores,
    private readonly manager: EntityManager,
    private readonly parent: Parent,
  ) {}

  readonly enqueue = async (
    name: string,
    payload: unknown,
    options: EnqueueOptions = {},
  ): Promise<Enqueued> => {
    const effect = this.stores.registry.knownEffect(name);
    checkEnqueue(effect.name, options);
    const key = options.key ?? '';
    this.refuseRepeat(effect, key);
    const frozen = freeze(effect.name, payload);
    const generation = await this.readGeneration(effect);
    const ids = this.ids(effect, key, generation);
    // Rows under former names are looked up first. Without former names the insert itself finds the row.
    const former =
      ids.length > 1 ? await this.stores.effects.findExisting(this.manager, ids, frozen) : undefined;
    if (former !== undefined) return { id: former.id, existing: true };
    const id = ids[0]!;
    const inserted = await this.stores.insert(this.manager, {
      ...newEffect(effect, payload, options),
      id,
      parentId: this.parent.id,
      trace: traceOf(this.parent.trace),
      event: this.parent.event,
      payload: frozen,
    });
    if (inserted) {
      this.woken.push(effect.name);
      this.recordAdded(effect, key, id, generation);
    } else await this.stores.effects.findExisting(this.manager, [id], frozen);
    return { id, existing: !inserted };
  };

  /**
   * Effects that this run would enqueue for the first time, although its handler was done for the event before. It reads them in the run's
   * transaction, so effects that were rolled back to a savepoint do not count.
   */
  async findRefusedEffects(manager: EntityManager): Promise<NamedEffect[]> {
    const { added } = this;
    const ids = added.flatMap(({ id, earlier }) => [id, ...earlier]);
    const present = await this.stores.effects.findPresent(manager, ids);
    const isNew = ({ id, earlier }: Added) => present.has(id) && !earlier.some((one) => present.has(one));
    return added.filter(isNew).map(({ name, key }) => ({ name, key }));
  }

  /** Whether there is anything to ask `refusedEffects` about. */
  get hasAdded(): boolean {
    return this.added.length > 0;
  }

  private recordAdded(effect: Effect, key: string, id: string, generation: number): void {
    if (this.parent.rerun?.newEffects !== 'refuse') return;
    const generations = Array.from({ length: generation }, (_, earlier) => this.ids(effect, key, earlier));
    this.added.push({ name: effect.name, key, id, earlier: generations.flat() });
  }

  private async readGeneration(effect: Effect): Promise<number> {
    const { id, generation } = this.parent;
    return generation === 0 ? 0 : this.stores.replays.generationOf(this.manager, id, everyName(effect));
  }

  private ids(effect: Effect, key: string, generation: number): string[] {
    return everyName(effect).map((name) => outboxId(this.parent.id, name, key, generation));
  }

  private refuseRepeat(effect: Effect, key: string): void {
    const seen = JSON.stringify([effect.name, key]);
    if (this.seen.has(seen)) throw new EffectKeyRequired(effect.name, key);
    this.seen.add(seen);
  }
}

/** The first name first: an instance of before a renaming that runs the handler again finds the row of today. */
function everyName(effect: Effect): string[] {
  return [...new Set([firstName(effect), effect.name, ...effect.was])];
}

/** The fields of a new effect row that come from the effect and the enqueue options. Id, parent and payload are added by the caller. */
export function newEffect(effect: Effect, payload: unknown, options: EnqueueOptions) {
  const key = effect.options.key && orderKey(() => effect.options.key!.call(effect.instance, payload));
  return {
    name: effect.name,
    firstName: firstName(effect),
    key: options.key ?? '',
    orderKey: key,
    runAt: options.runAt,
    delayMs: options.delayMs,
  };
}

/** Also of a result that is kept for a completion. */
export const MAX_PAYLOAD_BYTES = 1024 * 1024;

/** An effect's payload as the bytes that each attempt will see. */
export function freeze(effect: string, payload: unknown): Buffer {
  let json: string | undefined;
  try {
    json = JSON.stringify(payload ?? null);
  } catch (error) {
    throw new WebhookInboxError(
      'PAYLOAD_REFUSED',
      `The payload of effect '${effect}' is not JSON: ${errorText(error)}`,
    );
  }
  const bytes = Buffer.from(json ?? 'null');
  if (bytes.length > MAX_PAYLOAD_BYTES) {
    throw new WebhookInboxError(
      'PAYLOAD_REFUSED',
      `The payload of effect '${effect}' has ${bytes.length} bytes, and at most ${MAX_PAYLOAD_BYTES} are kept: enqueue an id and load the rest`,
    );
  }
  return bytes;
}
