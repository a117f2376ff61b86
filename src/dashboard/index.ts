export { WebhooksDashboardModule } from './dashboard.module.js';
export type { DashboardAction, DashboardOptions, DashboardScope } from './dashboard.options.js';
