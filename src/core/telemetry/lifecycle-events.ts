import { Injectable } from '@nestjs/common';
import type { EventKey } from '../event.js';

/** An event, with the facts that are known when it arrives. */
export interface LifecycleOfEvent extends EventKey {
  readonly type: string;
}
/** A handler's or an effect's row, as listeners get it. */
export interface LifecycleOfRow {
  readonly outboxId: string;
  /** The full name of the handler (`source/name`), or that of the effect. */
  readonly name: string;
  readonly attempt: number;
  /** Undefined for an effect that no event has led to. */
  readonly event?: EventKey;
}

/** The fields of each lifecycle event, by its name. */
export interface LifecycleEvents {
  /** Committed: the event is ours, with so many handlers owed for it. */
  readonly claimed: LifecycleOfEvent & { readonly id: string; readonly handlers: number };
  readonly duplicate: LifecycleOfEvent;
  /** `source` is '' where the request reached none. */
  readonly rejected: { readonly source: string; readonly reason: string };
  /** A handler's transaction has committed; `superseded`: its event was stale. */
  readonly handled: LifecycleOfRow & { readonly outcome: 'done' | 'superseded' };
  readonly effectDone: LifecycleOfRow;
  readonly dead: LifecycleOfRow & { readonly reason: string };
  readonly parked: LifecycleOfRow & { readonly reason: string };
  /** A person has had the event run again. */
  readonly replayed: EventKey;
}

/** A function that `WebhookLifecycle.on` calls. */
export type LifecycleListener<N extends keyof LifecycleEvents> = (event: LifecycleEvents[N]) => unknown;
type Listeners = { [N in keyof LifecycleEvents]?: Set<LifecycleListener<N>> };

/**
 * Events of this process for the application, after the commit: `lifecycle.on('dead', ({ name }) => …)`. A listener is not awaited, and an
 * error of it has no effect. It is a notice and no promise: a process that dies does not emit its last commit. Work that must not be lost
 * is a handler or an effect.
 */
@Injectable()
export class WebhookLifecycle {
  private readonly listeners: Listeners = {};

  /** Returns what ends it. */
  on<N extends keyof LifecycleEvents>(name: N, listener: LifecycleListener<N>): () => void {
    const all = (this.listeners[name] ??= new Set() as NonNullable<Listeners[N]>) as Set<
      LifecycleListener<N>
    >;
    all.add(listener);
    return () => void all.delete(listener);
  }

  /** Calls `event` only where a listener exists. @internal */
  emit<N extends keyof LifecycleEvents>(name: N, event: () => LifecycleEvents[N]): void {
    const all = this.listeners[name];
    if (all === undefined || all.size === 0) return;
    const told = event();
    for (const listener of all) void quietly(() => listener(told));
  }
}

async function quietly(tell: () => unknown): Promise<void> {
  try {
    await tell();
  } catch {
    // The listener's own matter.
  }
}
