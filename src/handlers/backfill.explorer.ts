import { Inject, Injectable } from '@nestjs/common';
import { MetadataScanner } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { z } from 'zod';
import { toMs, type Duration } from '../core/options/duration.js';
import { configuredSource } from '../core/options/known-source.js';
import type { ResolvedOptions } from '../core/options/resolve-options.js';
import { check, duration, positiveDuration } from '../core/options/schema.js';
import { WEBHOOKS_OPTIONS } from '../core/tokens.js';
import {
  BACKFILL_SOURCE,
  type BackfillContext,
  type BackfillEvent,
  type BackfillSourceMetadata,
  type ListEvents,
} from './backfill-source.decorator.js';
import { DecoratedProviders, refuseScoped } from './decorated.providers.js';
import { metadataOf } from './metadata.js';
import { foundTwice, originOf, type Origin } from './origin.js';

/** Gaps are no younger: their webhooks may be on the way. */
export const GRACE_MS = 5 * 60_000;

const optionsSchema = z.strictObject({
  every: positiveDuration.optional(),
  lookback: duration
    .refine((value) => (toMs(value) ?? Infinity) > GRACE_MS, {
      error:
        'expected more than 5 minutes, since younger events are left out: their webhooks may be on the way',
    })
    .optional(),
});

type Methods = Record<string, ListEvents>;

/** Reads `@BackfillSource` on every provider, and holds what it found. */
@Injectable()
export class BackfillExplorer {
  private readonly bySource = new Map<
    string,
    {
      readonly list: ListEvents;
      readonly origin: Origin;
      readonly everyMs: number | undefined;
      readonly lookbackMs: number | undefined;
    }
  >();

  constructor(
    private readonly providers: DecoratedProviders,
    private readonly scanner: MetadataScanner,
    @Inject(WEBHOOKS_OPTIONS) private readonly options: ResolvedOptions,
  ) {}

  /** @throws ConfigurationError naming the class, the method and the remedy */
  explore(): void {
    for (const { wrapper, prototype: found } of this.providers.all()) {
      const prototype = found as Methods;
      for (const name of this.scanner.getAllMethodNames(prototype)) {
        for (const metadata of metadataOf<BackfillSourceMetadata>(BACKFILL_SOURCE, prototype[name]!)) {
          const { source } = metadata;
          const at = `${found.constructor.name}.${name} @BackfillSource('${source}')`;
          this.register(metadata, wrapper, name, originOf(wrapper, prototype[name]!, at));
        }
      }
    }
  }

  list(source: string): ListEvents | undefined {
    return this.bySource.get(source)?.list;
  }

  /** How far back the gaps of a source are searched for. */
  lookbackMs(source: string): number | undefined {
    return this.bySource.get(source)?.lookbackMs;
  }

  /** Sources whose gaps are searched for at intervals. */
  scheduled(): { readonly source: string; readonly everyMs: number }[] {
    return [...this.bySource].flatMap(([source, { everyMs }]) =>
      everyMs === undefined ? [] : [{ source, everyMs }],
    );
  }

  private register(
    { source, options }: BackfillSourceMetadata,
    wrapper: InstanceWrapper,
    method: string,
    origin: Origin,
  ): void {
    const { at } = origin;
    configuredSource(this.options, source, at);
    check(optionsSchema, options, at);
    const other = this.bySource.get(source);
    if (other !== undefined) {
      const remedy = 'One method lists all events of a source: merge the two';
      throw foundTwice(`source '${source}' has two lists of events`, other.origin, origin, remedy);
    }
    refuseScoped(wrapper, at);
    const list = (since: Date, context: BackfillContext): AsyncIterable<BackfillEvent> =>
      (wrapper.instance as Methods)[method]!(since, context);
    const ms = (value: Duration | undefined) => (value === undefined ? undefined : toMs(value));
    const [everyMs, lookbackMs] = [ms(options.every), ms(options.lookback)];
    this.bySource.set(source, { list, origin, everyMs, lookbackMs });
  }
}
