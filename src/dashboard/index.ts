export { WebhooksDashboardModule } from './dashboard.module.js';
export type { DashboardAction, DashboardOptions } from './dashboard.options.js';
