import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { PermanentError } from '../../core/errors.js';
import type { EffectMessage, EffectTransport } from '../../core/options/effect-transport.js';
import type { EngineRoute } from '../../core/options/resolve-transports.js';
import { orAborted } from '../../core/time/waits.js';
import { HandlerRegistry, namesOf, type Effect } from '../../handlers/handler.registry.js';
import { EngineStore } from '../../storage/engine/engine.store.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import { OutboxStore } from '../../storage/outbox.store.js';
import { TurnStore } from '../../storage/turn.store.js';
import { runAttempt } from '../runs/attempt-span.js';
import { LeaseLost } from '../runs/deadline.js';
import { readPayload } from '../runs/effect.runner.js';
import { effectPolicy } from '../runs/effect.settler.js';
import { FailureSettler, type RunOutcome } from '../runs/failure.settler.js';
import { LoneStatements } from '../runs/lone-statements.js';
import { WakeUp } from '../wake/wake-up.js';
import { EngineLink, type Delivered } from './engine-link.js';

/** Rows that one process hands over at once. */
export const MAX_HANDING = 200;
const MIN_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 30_000;

/** Hands leased effects over to their engines. A row is `handed` only after the engine has confirmed its message. */
@Injectable()
export class HandOver {
  private readonly links = new Map<EffectTransport, EngineLink>();

  constructor(
    private readonly registry: HandlerRegistry,
    private readonly failures: FailureSettler,
    private readonly store: EngineStore,
    private readonly outbox: OutboxStore,
    private readonly turns: TurnStore,
    private readonly statements: LoneStatements,
    private readonly wakeUp: WakeUp,
  ) {}

  /** How many messages of an engine are worth a lease now. */
  room({ transport }: EngineRoute): number {
    return this.link(transport).room;
  }

  /** @throws when the end could not be recorded: the lease ends by itself, and the message goes out again under the same id */
  run(row: LeasedRow, signal: AbortSignal): Promise<RunOutcome> {
    return runAttempt(
      [row],
      (outcome) => [outcome],
      () => this.handOver(row, signal),
    );
  }

  private async handOver(row: LeasedRow, signal: AbortSignal): Promise<RunOutcome> {
    const effect = this.registry.effect(row.name)!;
    const engine = this.registry.engineOf(row.name)!;
    try {
      readPayload(row);
    } catch (error) {
      return this.failures.settle(row, error, effectPolicy(effect));
    }
    if (row.attempt > 1 && row.ageMs > effect.keyRetentionMs) return this.failures.park(row, 'key-expired');
    let delivered: Delivered;
    try {
      const message = messageOf(effect, row, await this.lifeOf(row));
      delivered = await orAborted(this.link(engine.transport).deliver({ row, message }), signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      // A shutdown has given the row back.
      if (signal.reason instanceof LeaseLost) return 'lost';
      return this.putOff(row);
    }
    if ('handed' in delivered) return delivered.handed ? 'handed' : 'lost';
    // An engine that is down says nothing about the row, and uses none of its attempts up.
    if (!(delivered.error instanceof PermanentError)) return this.putOff(row);
    return this.failures.settle(row, delivered.error, effectPolicy(effect));
  }

  /** Gives the row back for a moment, which grows with its age. The engine may have the message all the same. */
  private async putOff(row: LeasedRow): Promise<RunOutcome> {
    const delayMs = Math.ceil(Math.min(Math.max(row.ageMs / 4, MIN_PAUSE_MS), MAX_PAUSE_MS));
    const given = { delayMs, running: true };
    const released = await this.statements.send((manager) => this.outbox.release(manager, [row], given));
    return released === 1 ? 'put-off' : 'lost';
  }

  /** Attempts that do not count raise no life. A row whose attempts all count is in its first. */
  private async lifeOf({ id, attempt, tries }: LeasedRow): Promise<number> {
    if (attempt === tries) return 0;
    return this.statements.send(async (manager) => (await this.store.lives(manager, [id])).get(id) ?? 0);
  }

  private link(transport: EffectTransport): EngineLink {
    let link = this.links.get(transport);
    if (link === undefined) {
      const begin = (rows: readonly LeasedRow[]) =>
        this.statements.send((manager) => this.store.begin(manager, rows));
      link = new EngineLink(transport, begin, (rows) => this.settle(rows));
      this.links.set(transport, link);
    }
    return link;
  }

  private async settle(rows: readonly LeasedRow[]): Promise<ReadonlySet<string>> {
    const handed = rows.map((row) => ({ ...row, unheardMs: this.registry.engineOf(row.name)!.unheardMs }));
    const hand = (manager: EntityManager) => this.store.handOver(manager, handed);
    const ordered = rows.filter(({ orderKey }) => orderKey !== undefined);
    if (ordered.length === 0) return new Set((await this.statements.send(hand)).keys());
    const passed = new Set<string>();
    const ids = await this.statements.commit(async (manager) => {
      const settled = await hand(manager);
      // The engine keeps the order of publishing, so that the next row of the key may follow.
      for (const { id, name, orderKey } of ordered) {
        if (settled.get(id) === true && (await this.turns.pass(manager, orderKey!))) passed.add(name);
      }
      return new Set(settled.keys());
    });
    this.wakeUp.wake([...passed].flatMap((name) => namesOf(this.registry.effect(name)!)));
    return ids;
  }
}

function messageOf({ name: effect }: Effect, row: LeasedRow, life: number): EffectMessage {
  const { id, payload, orderKey, event, trace, firstLeasedAt, begun, attempt } = row;
  return {
    id,
    messageId: life === 0 ? id : `${id}-${life}`,
    life,
    effect,
    payload: payload!.toString(),
    orderKey: orderKey?.key,
    event: event && { source: event.source, tenant: event.tenant, eventId: event.eventId },
    trace,
    since: firstLeasedAt?.toISOString(),
    repeated: begun || attempt > 1,
  };
}
