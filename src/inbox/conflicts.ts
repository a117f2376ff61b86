import { Injectable } from '@nestjs/common';
import { Alerts } from '../core/telemetry/alerts.js';
import type { EventKey } from '../core/event.js';
import { Tally } from '../core/telemetry/tally.js';

const WINDOW_MS = 60_000;
/** Told in each window for a source; beyond that the keeper's round tells how many there were. */
const MOST_TOLD = 10;
/** Events that were told of and are remembered, the latest. */
const REMEMBERED = 1_000;

interface Window {
  readonly beganAt: number;
  told: number;
}

/**
 * Tells of conflicts, each event once, and of a few a minute for each source: one whose retries are never the same bytes brings one
 * with every delivery. All of them are counted, and noted with their event.
 */
@Injectable()
export class Conflicts {
  private readonly told = new Set<string>();
  private readonly windows = new Map<string, Window>();

  constructor(
    private readonly alerts: Alerts,
    private readonly tally: Tally,
  ) {}

  tell({ source, tenant, eventId }: EventKey, conflict: 'other-bytes' | 'suspected-replay'): void {
    this.tally.add(source, 'conflicts');
    const key = JSON.stringify([source, tenant, eventId, conflict]);
    if (this.told.has(key)) return;
    const window = this.window(source);
    if (window.told >= MOST_TOLD) return;
    window.told += 1;
    this.told.add(key);
    if (this.told.size > REMEMBERED) this.told.delete(this.told.values().next().value!);
    this.alerts.raise({ kind: 'conflict', conflict, event: { source, tenant, eventId } });
  }

  private window(source: string): Window {
    const now = performance.now();
    const open = this.windows.get(source);
    if (open !== undefined && now - open.beganAt < WINDOW_MS) return open;
    const window = { beganAt: now, told: 0 };
    this.windows.set(source, window);
    return window;
  }
}
