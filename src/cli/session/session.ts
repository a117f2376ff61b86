import type { INestApplicationContext } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import type { ResolvedOptions } from '../../core/options/resolve-options.js';
import type { WebhookRoutes } from '../../http/webhook.routes.js';
import type { Backfills } from '../../inbox/catch-up/backfills.js';
import type { StartupReconciler } from '../../inbox/catch-up/startup.reconciler.js';
import type { Inspector } from '../../operator/inspector.js';
import type { Operator } from '../../operator/operator.js';
import type { Replays } from '../../operator/replay/replays.js';
import type { Retention } from '../../operator/retention.js';
import type { Stats } from '../../operator/stats.js';

/** Where a command finds the tables, and the handlers where it needs them. */
export interface Place {
  readonly app?: string;
  readonly dataSource?: string;
  readonly schema?: string;
  readonly verbose?: boolean;
  /** With the application's HTTP server, which does not listen. */
  readonly http?: boolean;
}

/** The application, or the tables alone, for the time of one command. */
export interface Session {
  readonly context: INestApplicationContext;
  /** Whether handlers, sources and secrets are known. */
  readonly hasApp: boolean;
  readonly dataSource: DataSource;
  readonly options: ResolvedOptions;
  readonly inspector: Inspector;
  readonly operator: Operator;
  readonly stats: Stats;
  readonly replays: Replays;
  readonly backfills: Backfills;
  readonly reconciler: StartupReconciler;
  readonly retention: Retention;
  readonly routes: WebhookRoutes;
  close(): Promise<void>;
}
