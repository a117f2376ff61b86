import { WebhookInbox1796000000000 } from './1796000000000-webhook-inbox.js';

/** The package's migrations, for the `migrations` of the host's own DataSource. */
export const webhookInboxMigrations = [WebhookInbox1796000000000];
export type { WebhookInbox1796000000000 };
