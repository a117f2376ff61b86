import { Inject, Module, type DynamicModule, type OnApplicationBootstrap } from '@nestjs/common';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';
import { DashboardActions } from './dashboard.actions.js';
import { dashboardController } from './dashboard.controller.js';
import { DashboardLists } from './dashboard.lists.js';
import {
  DASHBOARD,
  resolveDashboard,
  type DashboardOptions,
  type ResolvedDashboard,
} from './dashboard.options.js';
import { PageFiles } from './page.files.js';
import { Reply } from './reply.js';
import { TrailingSlash } from './trailing-slash.js';

/** Mounts the dashboard: page and JSON API, under the application's own guards. Needs `WebhooksModule` in the same application. */
@Module({})
export class WebhooksDashboardModule implements OnApplicationBootstrap {
  private readonly logger = new InboxLogger();

  constructor(@Inject(DASHBOARD) private readonly options: ResolvedDashboard) {}

  /**
   * `WebhooksDashboardModule.forRoot({ path: 'admin/webhooks', guards: [AdminGuard], imports: [AuthModule] })`
   * @throws ConfigurationError without a guard, unless `allowUnauthenticated: true`
   */
  static forRoot(options: DashboardOptions): DynamicModule {
    const resolved = resolveDashboard(options);
    return {
      module: WebhooksDashboardModule,
      imports: [...(options.imports ?? [])],
      controllers: [dashboardController(resolved.path, options.guards ?? [])],
      providers: [
        { provide: DASHBOARD, useValue: resolved },
        DashboardActions,
        DashboardLists,
        PageFiles,
        Reply,
        TrailingSlash,
      ],
    };
  }

  /** Warns about a dashboard without a guard. */
  onApplicationBootstrap(): void {
    if (this.options.unauthenticated) {
      this.logger.warn(
        logLine(
          `the dashboard at '${this.options.path}' has no guard (allowUnauthenticated): use it on this machine only`,
          {},
        ),
      );
    }
  }
}
