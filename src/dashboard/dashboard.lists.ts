import { Inject, Injectable } from '@nestjs/common';
import type { ResolvedOptions } from '../core/resolve-options.js';
import { UUID } from '../core/place.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { FILTER_KEYS } from '../operator/event.filter.js';
import { Inspector, type InspectedEvent } from '../operator/inspector.js';
import { MAX_AT_ONCE, Operator } from '../operator/operator.js';
import { Stats } from '../operator/stats.js';
import { contentOf, type Content } from './content.js';
import { QUERY, read } from './input.js';

const FINGERPRINT = /^[0-9a-f]{32}$/;

/** What the page reads: lists by name. */
@Injectable()
export class DashboardLists {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly inspector: Inspector,
    private readonly stats: Stats,
    private readonly operator: Operator,
  ) {}

  /** What the page needs to know once. */
  meta() {
    return {
      sources: [...this.options.sources.keys()],
      effects: this.inspector.effectNames(),
      filterKeys: FILTER_KEYS,
      keepsRejections: this.options.keepRejectionsMs > 0,
      maxAtOnce: MAX_AT_ONCE,
      now: Date.now(),
    };
  }

  async event(id: string): Promise<InspectedEvent | undefined> {
    return UUID.test(id) ? this.inspector.event(id) : undefined;
  }

  /** The body of an event; undefined when it was removed. */
  async content(id: string): Promise<Content | undefined> {
    const stored = await this.inspector.body(id);
    return stored?.body ? contentOf(stored.body) : undefined;
  }

  /**
   * @returns undefined for a list that does not exist
   * @throws InputRefused
   */
  async list(name: string, id: string | undefined, query: unknown): Promise<unknown> {
    if (name === 'dead') {
      if (id === undefined) return { groups: await this.inspector.deadGroups() };
      return FINGERPRINT.test(id) ? { rows: await this.inspector.deadGroup(id) } : undefined;
    }
    if (id !== undefined) return undefined;
    switch (name) {
      case 'overview':
        return this.stats.overview(read(QUERY.overview, query, 'query').range);
      case 'events': {
        const { q, after } = read(QUERY.events, query, 'query');
        return this.inspector.events(q, after);
      }
      case 'effects':
        return { effects: await this.inspector.effects(read(QUERY.effects, query, 'query')) };
      case 'rejections':
        return { rejections: await this.inspector.rejections(read(QUERY.rejections, query, 'query')) };
      case 'sources':
        return {
          sources: await this.inspector.sources(),
          former: await this.inspector.formerSources(),
        };
      case 'paused':
        return { paused: await this.operator.paused() };
      case 'relays':
        return this.inspector.relays();
      case 'audit':
        return { audit: await this.inspector.audit(read(QUERY.audit, query, 'query').before) };
      case 'alerts':
        return { alerts: await this.inspector.alerts() };
      default:
        return undefined;
    }
  }
}
