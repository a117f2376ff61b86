import { Inject, Injectable } from '@nestjs/common';
import { knownSource } from '../core/options/known-source.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { retryWindowMs } from '../core/options/resolve-source.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import { BackfillExplorer } from '../handlers/backfill.explorer.js';
import { HandlerRegistry } from '../handlers/handler.registry.js';
import { SearchStore } from '../storage/desk/search.store.js';
import { StatStore } from '../storage/desk/stat.store.js';
import { BoundedRead } from '../storage/postgres/bounded-read.js';
import { inspectedSecrets, type InspectedSecret } from './explain/inspected-secrets.js';
import { Stats, type SourceRates } from './stats.js';

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
  /** Whether a method with `@BackfillSource` lists the provider's events. */
  readonly hasList: boolean;
  readonly secrets: readonly InspectedSecret[];
  readonly rates: SourceRates;
}

/** Part of a list, and where the next one begins. */
export type ListPage<K extends string, T> = { readonly [N in K]: readonly T[] } & { readonly next?: string };

const PAGE = 24;

/** Lists the configured sources with their rates and secrets. */
@Injectable()
export class SourceInspector {
  constructor(
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
    private readonly reads: BoundedRead,
    private readonly search: SearchStore,
    private readonly stats: Stats,
    private readonly statRows: StatStore,
    private readonly registry: HandlerRegistry,
    private readonly lists: BackfillExplorer,
  ) {}

  /** As `Inspector.sources`. */
  async list(
    search: string,
    after: string,
    visible: readonly string[] | undefined,
    limit = PAGE,
  ): Promise<ListPage<'sources', InspectedSource> & { readonly total: number }> {
    const found = [...this.options.sources.keys()]
      .filter(
        (name) => name.toLowerCase().includes(search.toLowerCase()) && visible?.includes(name) !== false,
      )
      .sort();
    const names = found.filter((name) => name > after).slice(0, limit);
    const rates = await this.stats.rates(names);
    const [last, uses] = await this.reads.run(async (manager) => [
      await this.search.lastEvents(manager, names),
      await this.statRows.secretUses(manager, names),
    ]);
    const byName = new Map(last.map((row) => [row.source, row]));
    const handlers = [...new Set(this.registry.handlers().values())];
    const sources = names.map((name): InspectedSource => {
      const source = this.options.sources.get(name)!;
      const { provider, retries, retentionMs, toleranceMs, maxBytes } = source;
      const latest = byName.get(name);
      return {
        name,
        provider: provider.name,
        scheme: provider.scheme,
        retries,
        retentionMs,
        retryWindowMs: retryWindowMs(provider),
        toleranceMs: toleranceMs ?? null,
        maxBytes,
        handlers: handlers
          .filter((handler) => handler.source === name)
          .map((handler) => ({ name: handler.name, types: handler.types })),
        lastAt: latest?.lastAt ?? null,
        lastType: latest?.lastType ?? null,
        hasList: this.lists.list(name) !== undefined,
        secrets: inspectedSecrets(source, uses),
        rates: rates.get(name)!,
      };
    });
    const end = names.at(-1);
    const more = end !== undefined && end !== found.at(-1);
    return { sources, total: found.length, ...(more ? { next: end } : {}) };
  }

  /** @throws WebhookInboxError UNKNOWN_SOURCE */
  async secrets(source: string): Promise<InspectedSecret[]> {
    const known = knownSource(this.options, source);
    return inspectedSecrets(
      known,
      await this.reads.run((manager) => this.statRows.secretUses(manager, [source])),
    );
  }
}
