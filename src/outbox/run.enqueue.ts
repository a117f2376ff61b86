import type { EntityManager } from 'typeorm';
import { EffectKeyRequired, WebhookInboxError } from '../core/errors.js';
import type { EventKey } from '../core/event.js';
import { outboxId } from '../core/outbox-id.js';
import type { Enqueued, EnqueueOptions } from '../handlers/context.js';
import type { HandlerRegistry } from '../handlers/handler.registry.js';
import type { OutboxStore } from '../storage/outbox.store.js';

/** The `enqueue` of one run: ids hang on the run's own row, so that the run, repeated, enqueues the same rows. */
export class RunEnqueue {
  private readonly seen = new Set<string>();
  /** Whether there is something for a relay once the run's transaction has committed. */
  enqueued = false;

  constructor(
    private readonly store: OutboxStore,
    private readonly registry: HandlerRegistry,
    private readonly manager: EntityManager,
    /** The row whose run this is. */
    private readonly parentId: string,
    private readonly event: EventKey | undefined,
  ) {}

  readonly enqueue = async (
    name: string,
    payload: unknown,
    options: EnqueueOptions = {},
  ): Promise<Enqueued> => {
    const effect = this.registry.knownEffect(name);
    const key = options.key ?? '';
    const seen = JSON.stringify([effect.name, key]);
    if (this.seen.has(seen)) throw new EffectKeyRequired(effect.name, key);
    this.seen.add(seen);
    const frozen = freeze(effect.name, payload);
    const ids = [effect.name, ...effect.was].map((one) => outboxId(this.parentId, one, key));
    const id = ids[0]!;
    // A row of a former name is looked for first; without former names the insert itself tells.
    const former = ids.length > 1 ? await this.store.existing(this.manager, ids, frozen) : undefined;
    if (former !== undefined) return { id: former.id, existing: true };
    const inserted = await this.store.enqueue(this.manager, {
      id,
      name: effect.name,
      key,
      parentId: this.parentId,
      event: this.event,
      payload: frozen,
    });
    this.enqueued ||= inserted;
    if (!inserted) await this.store.existing(this.manager, [id], frozen);
    return { id, existing: !inserted };
  };
}

const MAX_PAYLOAD_BYTES = 1024 * 1024;

/** An effect's payload as the bytes that each attempt will see. */
export function freeze(effect: string, payload: unknown): Buffer {
  let json: string | undefined;
  try {
    json = JSON.stringify(payload ?? null);
  } catch (error) {
    throw new WebhookInboxError(
      'PAYLOAD_REFUSED',
      `The payload of effect '${effect}' is not JSON: ${String(error)}`,
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
