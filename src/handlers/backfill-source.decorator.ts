import type { Duration } from '../core/options/duration.js';
import { append } from './metadata.js';

/** When the list is read by itself. */
export interface BackfillSourceOptions {
  /** So often one instance reads the list, claims what no webhook has brought, and raises `gaps-found`. @default false: by hand alone */
  readonly every?: Duration;
  /** How far back gaps are searched: longer than your receivers may be away, and more than 5 minutes. @default '2h' */
  readonly lookback?: Duration;
}

/** The metadata that `@BackfillSource` writes on a method. */
export interface BackfillSourceMetadata {
  readonly source: string;
  readonly options: BackfillSourceOptions;
}

export const BACKFILL_SOURCE = Symbol('webhook-inbox:backfill-source');

/** One event of the provider's own list. */
export interface BackfillEvent {
  /** As a webhook would carry it: bytes as they are, anything else as JSON. Id, type and time are read from it as from a webhook. */
  readonly body: unknown;
  /** Where the source reads the id or the type from headers: those. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The tenant, where the source has several. @default '' */
  readonly tenant?: string;
}

/** The second argument of a method with `@BackfillSource`. */
export interface BackfillContext {
  /** Fires when the run is stopped. */
  readonly signal: AbortSignal;
}

/** The type of a method with `@BackfillSource`. It pages through the provider's list from `since` on, in any order. */
export type ListEvents = (since: Date, context: BackfillContext) => AsyncIterable<BackfillEvent>;

/**
 * The method, an async generator, yields the provider's own list of events since a time; `Backfills.run` claims those that no
 * webhook has brought. One method a source.
 *
 * @param source name of a configured source
 * @param options `{ every: '15m', lookback: '2h' }` has gaps found by themselves
 */
export function BackfillSource(source: string, options: BackfillSourceOptions = {}): MethodDecorator {
  return append<BackfillSourceMetadata>(BACKFILL_SOURCE, { source, options });
}
