import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { UUID } from '../core/cursor.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { FILTERS, filterKeys, type FilteredList, type ListView } from '../operator/event.filter.js';
import { Inspector, type InspectedEvent } from '../operator/inspector.js';
import { MAX_AT_ONCE } from '../operator/replay/bulk.options.js';
import { Operator } from '../operator/operator.js';
import { Stats } from '../operator/stats.js';
import { contentOf, type Content } from './content.js';
import { DASHBOARD, type ResolvedDashboard } from './dashboard.options.js';
import { Refused } from './faults.js';
import { QUERY, read } from './input.js';
import type { Rights } from './rights.js';

const FINGERPRINT = /^[0-9a-f]{32}$/;

/** The page's reads: lists by name. */
@Injectable()
export class DashboardLists {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    @Inject(DASHBOARD) private readonly dashboard: ResolvedDashboard,
    private readonly inspector: Inspector,
    private readonly stats: Stats,
    private readonly operator: Operator,
  ) {}

  /** Facts that the page reads once. */
  async meta(rights: Rights) {
    return {
      // Of no one source: a person who replays an event chooses among them.
      effects: this.inspector.effectNames(),
      filterKeys: filterKeys(this.inspector.searchPaths(await this.searchable(rights))),
      keepsRejections: this.options.keepRejectionsMs > 0,
      maxAtOnce: MAX_AT_ONCE,
      now: Date.now(),
    };
  }

  /** Sources whose payloads may be searched: a hit tells that a payload has the value. */
  private async searchable(rights: Rights): Promise<readonly string[] | undefined> {
    if (this.dashboard.payloads === 'hidden') return [];
    return rights.visible(this.sources(), 'reveal');
  }

  /** Configured sources. */
  sources(): string[] {
    return [...this.options.sources.keys()];
  }

  async event(id: string, rights: Rights): Promise<InspectedEvent | undefined> {
    const event = UUID.test(id) ? await this.inspector.event(id) : undefined;
    // As if there were none: a person without the right must not learn whether an id exists.
    return event !== undefined && (await rights.may('view', event)) ? event : undefined;
  }

  /** The body of an event; undefined when it was removed. */
  async content(id: string): Promise<Content | undefined> {
    const stored = await this.inspector.body(id);
    return stored?.body ? contentOf(stored.body) : undefined;
  }

  /**
   * @returns undefined for a list that does not exist
   * @throws InputRefused; Refused 403 for a list about everything, without the right to see everything
   */
  async list(name: string, id: string | undefined, query: unknown, rights: Rights): Promise<unknown> {
    if (name === 'dead' && id !== undefined) return this.deadGroup(id, query, rights);
    if (id !== undefined) return undefined;
    if (isFiltered(name)) return this.filtered(name, query, rights);
    if (name === 'sources') return this.sourcePage(query, rights);
    if (name === 'paused') return this.paused(rights);
    return this.total(name, query, rights);
  }

  private async filtered(name: FilteredList, query: unknown, rights: Rights): Promise<unknown> {
    const { q, after, zone } = read(QUERY[name], query, 'query');
    const visible = await rights.visible(this.sources());
    const look: ListView = { zone, visible, searchable: await this.searchable(rights) };
    const unknown = this.inspector.unknownNames(q, name, look);
    const hints = unknown.length > 0 ? { hints: unknown } : {};
    switch (name) {
      case 'events': {
        const page = await this.inspector.events(q, after, undefined, look);
        return { ...page, ...hints, events: await rights.seen(page.events) };
      }
      case 'effects': {
        const page = await this.inspector.effects(q, after, look);
        return { ...page, ...hints, effects: await rights.seen(page.effects) };
      }
      case 'dead': {
        const pairs = await this.pairs(rights);
        return {
          ...(await this.inspector.deadGroups(q, after, { zone, ...(pairs && { pairs }) })),
          ...hints,
        };
      }
      case 'rejections':
        return { ...(await this.inspector.rejections(q, after, look)), ...hints };
      default:
        await rights.require('view');
        return this.inspector.audit(q, after, { zone });
    }
  }

  private async deadGroup(fingerprint: string, query: unknown, rights: Rights): Promise<unknown> {
    if (!FINGERPRINT.test(fingerprint)) return undefined;
    const pairs = await this.pairs(rights);
    const { after } = read(QUERY.group, query, 'query');
    return this.inspector.deadGroup(fingerprint, after, undefined, pairs && { pairs });
  }

  /** Sources and tenants whose dead rows may be seen; undefined when these are all there are. */
  private async pairs(rights: Rights) {
    const all = await this.inspector.deadScopes();
    const seen = await rights.seen(all);
    return seen.length === all.length && (await rights.may('view')) ? undefined : seen;
  }

  private async sourcePage(query: unknown, rights: Rights): Promise<unknown> {
    const { q, after } = read(QUERY.sources, query, 'query');
    const page = await this.inspector.sources(q, after, { visible: await rights.visible(this.sources()) });
    return { ...page, former: (await rights.may('view')) ? await this.inspector.formerSources() : [] };
  }

  private async paused(rights: Rights): Promise<unknown> {
    const all = await this.operator.paused();
    const owned = all.map((pause) => ({ pause, source: this.sourceOf(pause), tenant: null }));
    return { paused: (await rights.seen(owned)).map(({ pause }) => pause) };
  }

  /** An effect is of no one source. */
  sourceOf({ kind, name }: { readonly kind: string; readonly name: string }): string | null {
    if (kind === 'source') return name;
    return kind === 'handler' ? (this.inspector.sourceOfHandler(name) ?? null) : null;
  }

  /** Lists that concern all sources. */
  private async total(name: string, query: unknown, rights: Rights): Promise<unknown> {
    const lists: Readonly<Record<string, () => Promise<unknown>>> = {
      overview: () => this.stats.overview(read(QUERY.overview, query, 'query').range),
      relays: () => this.inspector.relays(),
      alerts: async () => ({ alerts: await this.inspector.alerts() }),
      destinations: async () => ({ destinations: await this.inspector.destinations() }),
      counts: () => this.inspector.counts(),
    };
    if (!Object.hasOwn(lists, name)) return undefined;
    if (!(await rights.may('view'))) throw new Refused(403, `'view' is not allowed for all sources`);
    return lists[name]!();
  }
}

function isFiltered(name: string): name is FilteredList {
  return Object.hasOwn(FILTERS, name);
}
