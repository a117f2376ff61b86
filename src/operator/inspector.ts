import { Inject, Injectable } from '@nestjs/common';
import { knownSource } from '../core/known-source.js';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { placeOf } from '../core/place.js';
import { retryWindowMs } from '../core/resolve-source.js';
import type { OutboxState } from '../core/states.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { AlertStore, type ToldAlert } from '../storage/alert.store.js';
import { AuditStore, type AuditRow } from '../storage/audit.store.js';
import { BoundedRead } from '../storage/bounded.read.js';
import { DeadStore, type DeadGroup, type DeadRow } from '../storage/dead.store.js';
import { RejectionStore, type ListedRejection } from '../storage/rejection.store.js';
import { RelayStore, type Backlog, type HeldLease, type SeenInstance } from '../storage/relay.store.js';
import {
  SearchStore,
  type Conflict,
  type EffectRow,
  type EventDetail,
  type EventPage,
  type EventRow,
} from '../storage/search.store.js';
import { StatStore } from '../storage/stat.store.js';
import { FormerSources } from './former.sources.js';
import { parseFilter } from './event.filter.js';
import { inspectedSecrets, type InspectedSecret } from './inspected.secrets.js';
import { SILENT_MS, Stats, type SourceRates } from './stats.js';

/** An event with everything that happened to it. */
export interface InspectedEvent extends EventDetail {
  /** Handler rows and effects, oldest first; an effect names its parent. */
  readonly rows: readonly EventRow[];
  readonly conflicts: readonly Conflict[];
  /** What the source's signatures cover and how; null when the source is no longer configured. */
  readonly scheme: string | null;
  /** Names of handlers that would be owed the event today. */
  readonly matches: readonly string[];
}

/** A source with its policies, its secrets (by fingerprint) and its rates. */
export interface InspectedSource {
  readonly name: string;
  readonly provider: string;
  readonly scheme: string;
  readonly retries: 'own' | 'provider';
  readonly retentionMs: number;
  readonly retryWindowMs: number;
  readonly toleranceMs: number | null;
  readonly maxBytes: number;
  readonly handlers: readonly { readonly name: string; readonly types: readonly string[] }[];
  readonly lastAt: Date | null;
  readonly lastType: string | null;
  readonly secrets: readonly InspectedSecret[];
  readonly rates: SourceRates;
}
export type { InspectedSecret } from './inspected.secrets.js';

export interface InspectedInstance extends SeenInstance {
  readonly alive: boolean;
}
export interface InspectedRelays {
  readonly instances: readonly InspectedInstance[];
  /** Jobs that one instance at a time does. */
  readonly leases: readonly HeldLease[];
  /** How long the most overdue row of each name has been due: nothing when no relay lags behind. */
  readonly overdue: Backlog['overdue'];
}

const PAGE = 50;

/** Lists and shows; changes nothing. */
@Injectable()
export class Inspector {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly reads: BoundedRead,
    private readonly search: SearchStore,
    private readonly deadRows: DeadStore,
    private readonly rejected: RejectionStore,
    private readonly relayRows: RelayStore,
    private readonly stats: Stats,
    private readonly statRows: StatStore,
    private readonly auditRows: AuditStore,
    private readonly alertRows: AlertStore,
    private readonly registry: HandlerRegistry,
    private readonly former: FormerSources,
  ) {}

  /**
   * A page of events that match a filter such as `source:stripe type:invoice.* state:dead after:2h`.
   * @param after `next` of the page before
   * @throws InputRefused
   */
  async events(filter: string, after?: string, limit = PAGE): Promise<EventPage> {
    const parsed = parseFilter(filter);
    const sources = [...this.options.sources.keys()];
    return this.reads.run((manager) => this.search.events(manager, parsed, limit, sources, placeOf(after)));
  }

  /** @param id our id of the event */
  async event(id: string): Promise<InspectedEvent | undefined> {
    return this.reads.run(async (manager) => {
      const detail = await this.search.detail(manager, id);
      if (detail === undefined) return undefined;
      const matches = this.registry.match(detail.source, detail.type).map((handler) => handler.name);
      return {
        ...detail,
        rows: await this.search.rows(manager, detail),
        conflicts: await this.search.conflicts(manager, detail),
        scheme: this.options.sources.get(detail.source)?.provider.scheme ?? null,
        matches,
      };
    });
  }

  /** The stored bytes; null when they were removed, undefined when there is no such event. */
  async body(id: string): Promise<{ body: Buffer | null; contentType: string | null } | undefined> {
    return this.reads.run((manager) => this.search.body(manager, id));
  }

  /** An effect's frozen payload. */
  async payload(outboxId: string): Promise<Buffer | null | undefined> {
    return this.reads.run((manager) => this.search.payload(manager, outboxId));
  }

  async effects(filter: {
    readonly name?: string;
    readonly state?: OutboxState;
    readonly before?: string;
  }): Promise<EffectRow[]> {
    return this.reads.run((manager) => this.search.effects(manager, filter, PAGE));
  }

  /** Names of the effects that this process knows. */
  effectNames(): string[] {
    return [...this.registry.effects().keys()];
  }

  async deadGroups(): Promise<DeadGroup[]> {
    return this.reads.run((manager) => this.deadRows.groups(manager, 200));
  }

  async deadGroup(fingerprintOfGroup: string, limit = 1_000): Promise<DeadRow[]> {
    return this.reads.run((manager) => this.deadRows.rows(manager, fingerprintOfGroup, limit));
  }

  async rejections(filter: {
    readonly source?: string;
    readonly before?: string;
  }): Promise<ListedRejection[]> {
    return this.reads.run((manager) => this.rejected.list(manager, PAGE, filter));
  }

  /** Sources that have claims and that no instance has configured. */
  async formerSources(): Promise<string[]> {
    return this.reads.run((manager) => this.former.list(manager));
  }

  async sources(): Promise<InspectedSource[]> {
    const names = [...this.options.sources.keys()];
    const rates = await this.stats.rates();
    const [last, uses] = await this.reads.run(async (manager) => [
      await this.search.lastEvents(manager, names),
      await this.statRows.secretUses(manager),
    ]);
    return names.map((name) => {
      const source = this.options.sources.get(name)!;
      const { provider, retries, retentionMs, toleranceMs, maxBytes } = source;
      const latest = last.find((row) => row.source === name);
      return {
        name,
        provider: provider.name,
        scheme: provider.scheme,
        retries,
        retentionMs,
        retryWindowMs: retryWindowMs(provider),
        toleranceMs: toleranceMs ?? null,
        maxBytes,
        handlers: [...new Set(this.registry.handlers().values())]
          .filter((handler) => handler.source === name)
          .map((handler) => ({ name: handler.name, types: handler.types })),
        lastAt: latest?.lastAt ?? null,
        lastType: latest?.lastType ?? null,
        secrets: inspectedSecrets(source, uses),
        rates: rates.get(name)!,
      };
    });
  }

  /** @throws WebhookInboxError UNKNOWN_SOURCE */
  async secrets(source: string): Promise<InspectedSecret[]> {
    const known = knownSource(this.options, source);
    return inspectedSecrets(known, await this.reads.run((manager) => this.statRows.secretUses(manager)));
  }

  async relays(): Promise<InspectedRelays> {
    return this.reads.run(async (manager) => {
      const rows = await this.relayRows.list(manager);
      const { overdue } = await this.relayRows.backlog(manager);
      return {
        instances: rows.map((row) => ({ ...row, alive: row.silentMs < SILENT_MS })),
        leases: await this.relayRows.leases(manager),
        overdue,
      };
    });
  }

  async audit(before?: string): Promise<AuditRow[]> {
    return this.reads.run((manager) => this.auditRows.list(manager, PAGE, before));
  }

  async alerts(): Promise<ToldAlert[]> {
    return this.reads.run((manager) => this.alertRows.list(manager, 100));
  }
}
