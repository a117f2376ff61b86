import type { EventKey } from '../core/event.js';

/** Which events an action is for: named ones, or those that a filter finds, newest first and at most `limit`. */
export type Selection =
  | { readonly events: readonly EventKey[] }
  | {
      readonly source?: string;
      readonly type?: string;
      readonly state?: string;
      readonly from?: Date;
      readonly to?: Date;
      readonly limit: number;
    };

/** What a person may pause: nothing of it is leased until it is resumed. */
export type PauseKind = 'source' | 'handler' | 'effect';

/** Runs settled events again. `preview` says beforehand what would run and what stays done. */
export interface ReplayPort {
  preview(selection: Selection): Promise<unknown>;
  run(
    selection: Selection,
    options: { readonly refire?: string[]; readonly reason: string; readonly by?: string },
  ): Promise<unknown>;
  forward(selection: Selection, url: string): Promise<unknown>;
}

/** Decides about an effect in doubt. */
export interface ParkedPort {
  decide(
    outboxId: string,
    decision: 'retry' | 'done' | 'dead',
    options: { readonly by: string; readonly reason: string },
  ): Promise<unknown>;
}

/** Removes an event's content and keeps its tombstone. */
export interface ErasurePort {
  erase(event: EventKey, options: { readonly by: string; readonly reason: string }): Promise<unknown>;
}

export interface PausePort {
  pause(
    kind: PauseKind,
    name: string,
    options: { readonly by: string; readonly reason: string },
  ): Promise<unknown>;
  resume(
    kind: PauseKind,
    name: string,
    options: { readonly by: string; readonly reason: string },
  ): Promise<unknown>;
  list(): Promise<readonly { readonly kind: PauseKind; readonly name: string }[]>;
}

/** Tokens under which the module provides what it has; an action whose port is not provided is not offered. */
export const REPLAYS = Symbol('webhook-inbox:replays');
export const PARKED = Symbol('webhook-inbox:parked');
export const ERASURE = Symbol('webhook-inbox:erasure');
export const PAUSES = Symbol('webhook-inbox:pauses');
