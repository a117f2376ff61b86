import type { DynamicModule } from '@nestjs/common';
// In your application: 'nestjs-webhook-inbox/dashboard'.
import { WebhooksDashboardModule } from '../../src/dashboard/index.js';
import { PasswordGuard } from './password.guard.js';
import type { Settings } from './settings.js';

const LOOPBACK = ['127.0.0.1', '::1', 'localhost'];

export const DASHBOARD_PATH = 'webhooks-desk';

/** Behind DASHBOARD_PASSWORD; without it to this machine only, and to nobody where others can reach the port. */
export function dashboard({ dashboardPassword, host }: Settings): DynamicModule[] {
  const path = DASHBOARD_PATH;
  if (dashboardPassword !== undefined) {
    return [WebhooksDashboardModule.forRoot({ path, guards: [new PasswordGuard(dashboardPassword)] })];
  }
  if (!LOOPBACK.includes(host)) return [];
  return [WebhooksDashboardModule.forRoot({ path, allowUnauthenticated: true })];
}
