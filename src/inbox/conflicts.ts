import { Injectable } from '@nestjs/common';
import { Alerts } from '../core/telemetry/alerts.js';
import type { EventKey } from '../core/event.js';
import { Tally } from '../core/telemetry/tally.js';

const WINDOW_MS = 60_000;
/** Alerts in each window for a source. The keeper's round alerts the number of further ones. */
const MAX_ALERTS = 10;
/** The most events whose alert is remembered, the latest ones. */
const REMEMBERED = 1_000;

interface Window {
  readonly beganAt: number;
  alerts: number;
}

/**
 * Alerts conflicts: each event once, and a few a minute for each source. A source whose retries never repeat the bytes has one with every
 * delivery. All of them are counted, and recorded with their event.
 */
@Injectable()
export class Conflicts {
  private readonly alerted = new Set<string>();
  private readonly windows = new Map<string, Window>();

  constructor(
    private readonly alerts: Alerts,
    private readonly tally: Tally,
  ) {}

  alertOnce({ source, tenant, eventId }: EventKey, conflict: 'other-bytes' | 'suspected-replay'): void {
    this.tally.add(source, 'conflicts');
    const key = JSON.stringify([source, tenant, eventId, conflict]);
    if (this.alerted.has(key)) return;
    const window = this.window(source);
    if (window.alerts >= MAX_ALERTS) return;
    window.alerts += 1;
    this.alerted.add(key);
    if (this.alerted.size > REMEMBERED) this.alerted.delete(this.alerted.values().next().value!);
    this.alerts.raise({ kind: 'conflict', conflict, event: { source, tenant, eventId } });
  }

  private window(source: string): Window {
    const now = performance.now();
    const open = this.windows.get(source);
    if (open !== undefined && now - open.beganAt < WINDOW_MS) return open;
    const window = { beganAt: now, alerts: 0 };
    this.windows.set(source, window);
    return window;
  }
}
