import { Inject, Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ConfigurationError } from '../../core/errors.js';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import { WEBHOOKS_DATA_SOURCE, WEBHOOKS_OPTIONS } from '../../core/tokens.js';
import { HandlerRegistry, type Handler } from '../../handlers/handler.registry.js';
import type { LeasedRow } from '../../storage/leased-rows.js';
import type { RunnableName } from '../../storage/outbox.store.js';
import { poolSize } from '../../storage/postgres/connection.js';
import type { Occupant } from '../relay/job.js';
import { Prefetch } from './prefetch.js';
import { half, hasRoom, isNext, MAX_INT4, room, usageOf, type Sharing, type Usage } from './shares.js';

/** A handler by one of its names. */
export type NamedHandler = readonly [string, Handler];

/** How many rows of a handler may be leased. */
export interface HandlerRoom extends RunnableName {
  readonly shareLimit: number;
  /** Free slots, before they are divided among names and sources. */
  readonly free: number;
}

/** Connections that are left to claims when the relay's share is derived from the pool. */
const CLAIM_RESERVE = 3;

/**
 * The slots of handlers: how many there are, and which rows may take one. A handler keeps within its own concurrency and its source's, and leaves
 * slots to other names and sources.
 */
@Injectable()
export class HandlerSlots {
  readonly prefetch = new Prefetch();

  constructor(
    @Inject(WEBHOOKS_DATA_SOURCE) private readonly dataSource: DataSource,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly registry: HandlerRegistry,
  ) {}

  /** @throws ConfigurationError when handlers could take every connection, so that nothing could be claimed while they run */
  checkPool(): void {
    const asked = this.options.relay === false ? undefined : this.options.relay.handlers;
    const size = poolSize(this.dataSource);
    if (asked === undefined || asked < size) return;
    throw new ConfigurationError(
      `WebhooksModule options: relay.handlers: each handler holds a connection while it runs, and a claim needs one too; ` +
        `expected less than the DataSource's poolSize (${size}), received ${asked}`,
    );
  }

  /** Whether a leased row may begin now. A prefetched row waits until no other name or source has a better right to the slot. */
  hasSlot(row: LeasedRow, jobs: Iterable<Occupant>): boolean {
    const handler = row.kind === 'handler' ? this.registry.handler(row.name)! : undefined;
    if (handler === undefined || handler.batch !== undefined) return true;
    const usage = this.usage(this.registry.shares(), jobs);
    if (row.alone || this.prefetchOf(handler) === 0) return usage.begun.count < this.maxHandlers();
    return hasRoom(this.roomOf([row.name, handler], usage));
  }

  /** Whether a run of a delivery may begin now, after the shares of others are kept free. */
  hasDeliverySlot({ name, source }: Pick<Handler, 'name' | 'source'>, jobs: readonly Occupant[]): boolean {
    const max = this.maxHandlers();
    const deliveries = jobs.filter(({ ofDelivery }) => ofDelivery);
    // The last slot is the relay's: a delivery that waits takes a free one before any row could be leased for it.
    if (this.options.relay !== false && deliveries.length >= Math.max(1, max - 1)) return false;
    const { begun } = usageOf(this.registry.shares(), this.isApart ? deliveries : jobs);
    const free = max - begun.count;
    return begun.names.room(name, free, half(max)) > 0 && begun.sources.room(source, free, half(max)) > 0;
  }

  /** Whether a row that is about to be claimed may have a slot here, beside those that others have a right to. */
  hasFreeSlot(handler: Handler, jobs: readonly Occupant[]): boolean {
    const { leased, begun } = this.usage(this.registry.shares(), jobs);
    const free = this.maxHandlers() - leased.count;
    if (free <= 0 || begun.count < leased.count) return false;
    const reserve = this.reserve(handler);
    return (
      leased.names.room(handler.name, free, reserve) > 0 &&
      leased.sources.room(handler.source, free, reserve) > 0
    );
  }

  /** How many rows of a handler may be leased now. */
  roomOf([name, handler]: NamedHandler, usage: Usage, prefetches = false): HandlerRoom {
    const max = this.maxHandlers();
    const more = prefetches ? this.prefetchOf(handler) : 0;
    // Waiting rows were prefetched, and take no slot from handlers without prefetch.
    const running = more > 0 ? usage.leased : usage.begun;
    const next = prefetches && more === 0 && isNext(name, usage, max) ? 1 : 0;
    const slots = max - running.count + more;
    // A lease for each row that ends would cost more than it brings. So half of the prefetched rows run first.
    const free = Math.max(next, 2 * slots < more ? 0 : slots);
    const reserve = this.reserve(handler);
    const { source } = handler;
    const ofSource = Math.max(next, running.sources.room(source, free, reserve));
    const shareLimit = Math.min(ofSource, this.roomOfSource(source, running.sources.running(source)));
    const one = room(running.names, [name, handler], free, reserve);
    const limit = Math.max(one.limit, Math.min(next, one.own));
    return { name, maxAttempts: one.maxAttempts, limit, share: source, shareLimit, free };
  }

  /** Slots that are kept for others. A quick handler returns its own soon, and one is kept for the time when it is slow. */
  private reserve(handler: Handler): number {
    const most = half(this.maxHandlers());
    return this.prefetchOf(handler) > 0 ? Math.min(1, most) : most;
  }

  // Rows that wait must not hold up what they are limited with.
  private prefetchOf({ name, source, batch, concurrency }: Handler): number {
    const limited = concurrency !== undefined || this.options.sources.get(source)?.concurrency !== undefined;
    return limited || batch !== undefined ? 0 : this.prefetch.size(name, this.maxHandlers());
  }

  private roomOfSource(source: string, running: number): number {
    const max = this.options.sources.get(source)?.concurrency ?? Number.MAX_SAFE_INTEGER;
    return Math.min(max - running, MAX_INT4);
  }

  /** The slots that are in use, as the relay counts them. */
  usage(sharing: Sharing, jobs: Iterable<Occupant>): Usage {
    return usageOf(sharing, this.isApart ? [...jobs].filter((one) => !one.ofDelivery) : jobs);
  }

  /** A single slot is not shared with deliveries, where the pool has a third connection for claims: the relay has one, and they have one. */
  private get isApart(): boolean {
    return this.maxHandlers() === 1 && poolSize(this.dataSource) > 2;
  }

  private maxHandlers(): number {
    const asked = this.options.relay === false ? undefined : this.options.relay.handlers;
    return asked ?? Math.max(1, poolSize(this.dataSource) - CLAIM_RESERVE);
  }
}

/** An occupant that waits for a slot. */
interface Waiting<T extends Occupant> {
  readonly occupant: T;
  /** Takes a slot, if there is one for it. */
  readonly tryBegin: () => boolean;
  /** False: it does not begin. */
  readonly resolve: (begins: boolean) => void;
}

/** Occupants with the same text need the same slot: those of one name, or those in quarantine. */
const slotOf = ({ rows: [row] }: Occupant) => (row!.alone ? '' : row!.name);

/** Those that wait for a slot. */
export class SlotQueue<T extends Occupant> {
  private waiting: Waiting<T>[] = [];

  /** Resolves with true in its slot, with false when it was taken out before. */
  wait(occupant: T, tryBegin: () => boolean): Promise<boolean> {
    return new Promise((resolve) => this.waiting.push({ occupant, tryBegin, resolve }));
  }

  /** Takes out those that `leaves` says, and gives them back. */
  remove(leaves: (occupant: T) => boolean): T[] {
    const taken = this.waiting.filter(({ occupant }) => leaves(occupant));
    this.waiting = this.waiting.filter((one) => !taken.includes(one));
    for (const { resolve } of taken) resolve(false);
    return taken.map(({ occupant }) => occupant);
  }

  /** Starts the occupants that get a slot. A row in quarantine comes first. Of the others, a name with fewer running rows comes first. */
  fill(occupants: () => readonly Occupant[]): void {
    if (this.waiting.length === 0) return;
    const running = new Map<string, number>();
    for (const { begun, rows } of occupants())
      if (begun) running.set(rows[0]!.name, (running.get(rows[0]!.name) ?? 0) + 1);
    const rank = ({ rows: [row] }: Occupant) => (row!.alone ? -1 : (running.get(row!.name) ?? 0));
    const inOrder = this.waiting.toSorted((a, b) => rank(a.occupant) - rank(b.occupant));
    // A name that has no slot for one row has none for the next: of a hundred that wait, two are asked about.
    const full = new Set<string>();
    const begun = new Set<Waiting<T>>();
    for (const one of inOrder) {
      const slot = slotOf(one.occupant);
      if (full.has(slot)) continue;
      if (one.tryBegin()) begun.add(one);
      else full.add(slot);
    }
    this.waiting = this.waiting.filter((one) => !begun.has(one));
    for (const { resolve } of begun) resolve(true);
  }
}
