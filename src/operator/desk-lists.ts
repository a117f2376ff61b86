import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { HandlerRegistry, namesOf } from '../handlers/handler.registry.js';
import { AlertStore, type ToldAlert } from '../storage/desk/alert.store.js';
import { AuditStore, type AuditRow, type PauseAct } from '../storage/desk/audit.store.js';
import type { EventDetail, EventRow } from '../storage/desk/event.sql.js';
import type { ListFilter } from '../storage/desk/filter.sql.js';
import type { Backlog, HeldLease, SeenInstance } from '../storage/desk/relay.store.js';
import { RejectionStore, type ListedRejection } from '../storage/desk/rejection.store.js';
import { DestinationStore, type Destination } from '../storage/destination.store.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';

/** A process, as the list of relays shows it. */
export interface InspectedInstance extends SeenInstance {
  readonly alive: boolean;
}
/** The processes, their leases and their lag. */
export interface InspectedRelays {
  readonly instances: readonly InspectedInstance[];
  /** Jobs that one instance at a time does. */
  readonly leases: readonly HeldLease[];
  /** How long the most overdue row of each name has been due: nothing when no relay lags behind. */
  readonly overdue: Backlog['overdue'];
}

/** Lists of the desk's own tables. */
@Injectable()
export class DeskLists {
  constructor(
    private readonly reads: BoundedRead,
    private readonly registry: HandlerRegistry,
    private readonly rejectionRows: RejectionStore,
    private readonly auditRows: AuditStore,
    private readonly alertRows: AlertStore,
    private readonly destinationRows: DestinationStore,
  ) {}

  rejections(filter: ListFilter, limit: number, before?: string): Promise<ListedRejection[]> {
    return this.reads.run((manager) => this.rejectionRows.list(manager, filter, limit, before));
  }

  audit(filter: ListFilter, limit: number, before?: string): Promise<AuditRow[]> {
    return this.reads.run((manager) => this.auditRows.list(manager, filter, limit, before));
  }

  /** Pauses of an event's source, handlers and effects while it was not settled. */
  pausesOf(
    manager: EntityManager,
    { source, receivedAt }: EventDetail,
    rows: readonly EventRow[],
  ): Promise<PauseAct[]> {
    const targets = rows.flatMap(({ kind, name }) => {
      const work = this.registry[kind](name);
      return [name, ...(work === undefined ? [] : namesOf(work))].map((one) => `${kind} ${one}`);
    });
    const ends = rows.map(({ settledAt }) => settledAt ?? new Date());
    const until = new Date(Math.max(receivedAt.getTime(), ...ends.map((at) => at.getTime())));
    return this.auditRows.pauses(manager, [`source ${source}`, ...targets], receivedAt, until);
  }

  alerts(limit: number): Promise<ToldAlert[]> {
    return this.reads.run((manager) => this.alertRows.list(manager, limit));
  }

  destinations(): Promise<Destination[]> {
    return this.reads.run((manager) => this.destinationRows.list(manager));
  }
}
