import { Inject, Injectable } from '@nestjs/common';
import { didYouMean } from '../core/options/did-you-mean.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { cursorOf, cursorText } from '../core/cursor.js';
import type { ListFilter } from '../storage/desk/filter.sql.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import type { ToldAlert } from '../storage/desk/alert.store.js';
import { AttemptStore, type Attempt } from '../storage/desk/attempt.store.js';
import type { AuditRow, PauseAct } from '../storage/desk/audit.store.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';
import { DeadStore, type DeadGroup, type DeadRow, type DeadSpread } from '../storage/desk/dead.store.js';
import type { Destination } from '../storage/destination.store.js';
import type { ListedRejection } from '../storage/desk/rejection.store.js';
import { RelayStore } from '../storage/desk/relay.store.js';
import { SearchStore, type EventPage } from '../storage/desk/search.store.js';
import type { Conflict, EffectRow, EventDetail, EventRow } from '../storage/desk/event.sql.js';
import { FormerSources } from './former-sources.js';
import { parseFilter, type FilteredList, type ListView, type TenantOfSource } from './event.filter.js';
import type { InspectedSecret } from './explain/inspected-secrets.js';
import { DeskLists, type InspectedRelays } from './desk-lists.js';
import { SourceInspector, type InspectedSource, type ListPage } from './source.inspector.js';
import { SILENT_MS } from './stats.js';

/** An event with everything that happened to it. */
export interface InspectedEvent extends EventDetail {
  /** Handler rows and effects, oldest first; an effect names its parent. */
  readonly rows: readonly EventRow[];
  /** Every attempt of these rows and acts of people on them, in the order of their ends, 1,000 at most. */
  readonly attempts: readonly Attempt[];
  /** Pauses of its source, handlers and effects while it was not settled. */
  readonly pauses: readonly PauseAct[];
  readonly conflicts: readonly Conflict[];
  /** The source's signature scheme: the covered facts and the method. Null when the source is no longer configured. */
  readonly scheme: string | null;
  /** Names of handlers that would be owed the event today. */
  readonly matches: readonly string[];
}

export type { InspectedSecret } from './explain/inspected-secrets.js';
export type { InspectedSource, ListPage } from './source.inspector.js';
export type { ListView, TenantOfSource } from './event.filter.js';
export type { InspectedInstance, InspectedRelays } from './desk-lists.js';

const PAGE = 50;

/** Lists and shows; changes nothing. */
@Injectable()
export class Inspector {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly reads: BoundedRead,
    private readonly search: SearchStore,
    private readonly deadRows: DeadStore,
    private readonly relayRows: RelayStore,
    private readonly attempts: AttemptStore,
    private readonly registry: HandlerRegistry,
    private readonly former: FormerSources,
    private readonly desk: DeskLists,
    private readonly sourceList: SourceInspector,
  ) {}

  /**
   * A page of events that match a filter such as `source:stripe type:invoice.* state:dead,parked -tenant:acme after:2h`.
   * @param after `next` of the page before
   * @throws InputRefused
   */
  async events(filter: string, after?: string, limit = PAGE, look: ListView = {}): Promise<EventPage> {
    const parsed = this.parsed(filter, 'events', look);
    return this.reads.run(async (manager) => {
      const configured = [...this.options.sources.keys()];
      // The command line may have the tables alone.
      const sources = configured.length > 0 ? configured : await this.former.all(manager);
      return this.search.events(manager, parsed, limit, sources, cursorOf(after));
    });
  }

  private parsed(
    filter: string,
    list: FilteredList,
    { zone, visible, searchable, pairs }: ListView,
  ): ListFilter {
    const parsed = parseFilter(filter, list, zone, undefined, this.searchPaths(searchable));
    // A hit tells that a payload has the value.
    const shown = parsed.tests.some(({ key }) => key === 'payload') ? (searchable ?? visible) : visible;
    return {
      ...parsed,
      ...(shown ? { visible: shown } : {}),
      ...(pairs ? { pairs } : {}),
    };
  }

  /** Paths of payloads by which events are found, of some sources. @default all sources */
  searchPaths(of: readonly string[] = [...this.options.sources.keys()]): string[] {
    return [...new Set(of.flatMap((name) => this.options.sources.get(name)?.searchPaths ?? []))];
  }

  /**
   * Names in a filter that nothing has, each with the nearest that something has. Stored rows may have them all the same. Names that
   * belong to no visible source are not told.
   */
  unknownNames(filter: string, list: FilteredList, { visible, searchable }: ListView = {}): string[] {
    const sources = visible ?? [...this.options.sources.keys()];
    const handlers = [...this.registry.handlers()].filter(([, { source }]) => sources.includes(source));
    const known: Readonly<Record<string, readonly string[]>> = {
      source: sources,
      handler: handlers.map(([name]) => name),
      effect: this.effectNames(),
    };
    return parseFilter(filter, list, undefined, undefined, this.searchPaths(searchable)).tests.flatMap(
      ({ key, values }) =>
        values
          .filter((value) => known[key] && !value.endsWith('*') && !known[key].includes(value))
          .map((value) => `no ${key} is called '${value}' now${didYouMean(value, known[key]!)}`),
    );
  }

  /**
   * An event with its rows, conflicts and history; undefined where there is none.
   * @param id the package's id of the event
   */
  async event(id: string): Promise<InspectedEvent | undefined> {
    return this.reads.run(async (manager) => {
      const detail = await this.search.detail(manager, id);
      if (detail === undefined) return undefined;
      const matches = this.registry.match(detail.source, detail.type).map((handler) => handler.name);
      const rows = await this.search.rows(manager, detail);
      const ids = rows.map((row) => row.id);
      return {
        ...detail,
        rows,
        attempts: await this.attempts.of(manager, ids),
        pauses: await this.desk.pausesOf(manager, detail, rows),
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

  /**
   * Bytes that came under the id of an event and contradict its own: of long ones the first 256 kB.
   * @param sha256 in hexadecimal
   */
  async conflictBody(id: string, sha256: string): Promise<Buffer | null | undefined> {
    return this.reads.run((manager) => this.search.conflictBody(manager, id, sha256));
  }

  /** An effect's frozen payload. */
  async payload(outboxId: string): Promise<Buffer | null | undefined> {
    return this.reads.run((manager) => this.search.payload(manager, outboxId));
  }

  /** @throws InputRefused; so do the other lists with a filter */
  async effects(
    filter: string,
    before?: string,
    look: ListView = {},
  ): Promise<ListPage<'effects', EffectRow>> {
    const parsed = this.parsed(filter, 'effects', look);
    return this.reads.run((manager) => this.search.effects(manager, parsed, PAGE, before));
  }

  /** Names of the effects that this process knows. */
  effectNames(): string[] {
    return [...this.registry.effects().keys()];
  }

  /**
   * Dead rows in groups of one error, those with the newest row first. `rowsLookedAt` where there are older dead rows that were not read.
   * @throws InputRefused for a wrong filter
   */
  async deadGroups(
    filter = '',
    after?: string,
    look: ListView = {},
  ): Promise<ListPage<'groups', DeadGroup> & { readonly rowsLookedAt?: number }> {
    const parsed = this.parsed(filter, 'dead', look);
    const { next, ...found } = await this.reads.run((manager) =>
      this.deadRows.groups(manager, parsed, PAGE, cursorOf(after)),
    );
    return next === undefined ? found : { ...found, next: cursorText(next) };
  }

  /** A group of dead rows that died of one error, and a page of them. */
  async deadGroup(
    fingerprint: string,
    after?: string,
    limit = 200,
    { pairs }: ListView = {},
  ): Promise<{ readonly group?: DeadGroup & DeadSpread } & ListPage<'rows', DeadRow>> {
    return this.reads.run(async (manager) => {
      const group = await this.deadRows.group(manager, fingerprint, pairs);
      const rows = await this.deadRows.rows(manager, fingerprint, limit, cursorOf(after), pairs);
      const last = rows.length === limit ? rows.at(-1) : undefined;
      return {
        ...(group && { group }),
        rows,
        ...(last && { next: cursorText(last) }),
      };
    });
  }

  /** Sources and tenants of all rows of a group; null for work of no event. */
  async groupOwners(fingerprint: string): Promise<{ source: string | null; tenant: string | null }[]> {
    return this.reads.run((manager) => this.deadRows.owners(manager, fingerprint));
  }

  /** Sources and tenants of the dead rows that lists read. */
  async deadScopes(): Promise<TenantOfSource[]> {
    return this.reads.run((manager) => this.deadRows.scopes(manager));
  }

  /** Source and tenant of events and outbox rows, by our ids. Unknown ids, and rows without an event, are left out. */
  async scopes(ids: readonly string[]): Promise<ReadonlyMap<string, TenantOfSource>> {
    return this.reads.run((manager) => this.search.scopes(manager, ids));
  }

  /** The source that a handler is of; undefined for one that this process does not know. */
  sourceOfHandler(name: string): string | undefined {
    return this.registry.handler(name)?.source ?? this.registry.routes().get(name)?.source;
  }

  /** Samples of rejected requests, the newest first. @throws InputRefused for a wrong filter */
  async rejections(
    filter = '',
    before?: string,
    look: ListView = {},
  ): Promise<ListPage<'rejections', ListedRejection>> {
    const parsed = this.parsed(filter, 'rejections', look);
    const rejections = await this.desk.rejections(parsed, PAGE, before);
    return { rejections, ...nextOf(rejections) };
  }

  /** Every source that there is: configured here or by an instance that was seen within the hour, or with claims. */
  async knownSources(): Promise<string[]> {
    return this.reads.run((manager) => this.former.all(manager));
  }

  /** Sources that have claims and that no instance has configured. */
  async formerSources(): Promise<string[]> {
    return this.reads.run((manager) => this.former.list(manager));
  }

  /**
   * A page of the configured sources whose names contain `search`, by name.
   * @param after the name that the page before ended with
   */
  async sources(
    search = '',
    after = '',
    { visible }: ListView = {},
    limit?: number,
  ): Promise<ListPage<'sources', InspectedSource> & { readonly total: number }> {
    return this.sourceList.list(search, after, visible, limit);
  }

  /** @throws WebhookInboxError UNKNOWN_SOURCE */
  async secrets(source: string): Promise<InspectedSecret[]> {
    return this.sourceList.secrets(source);
  }

  /** The running processes, their leases and their lag. */
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

  /** The audit, the newest row first. @throws InputRefused for a wrong filter */
  async audit(filter = '', before?: string, look: ListView = {}): Promise<ListPage<'audit', AuditRow>> {
    const parsed = this.parsed(filter, 'audit', look);
    const audit = await this.desk.audit(parsed, PAGE, before);
    return { audit, ...nextOf(audit) };
  }

  /** Destinations of effects that fail, wait or have a rate: 500 at most, those that are not called first. */
  async destinations(): Promise<Destination[]> {
    return this.desk.destinations();
  }

  /** How much waits for a person; counts stop at 10,000. */
  async counts(): Promise<{ readonly dead: number; readonly parked: number }> {
    const { dead, parked } = await this.reads.run((manager) => this.relayRows.counts(manager));
    return { dead, parked };
  }

  /** The newest 100 alerts. */
  async alerts(): Promise<ToldAlert[]> {
    return this.desk.alerts(100);
  }
}

function nextOf(rows: readonly { readonly id: string }[]): { readonly next?: string } {
  return rows.length === PAGE ? { next: rows.at(-1)!.id } : {};
}
