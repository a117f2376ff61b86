import { WebhookInbox1796000000000 } from './1796000000000-webhook-inbox.js';
import { OperatorDesk1796100000000 } from './1796100000000-operator-desk.js';

/** The package's migrations, for the `migrations` of the host's own DataSource. */
export const webhookInboxMigrations = [WebhookInbox1796000000000, OperatorDesk1796100000000];
