import { z } from 'zod';
import { check, schemaName } from '../src/core/options/schema.js';
import { WebhookInbox1796000000000 } from './1796000000000-webhook-inbox.js';

const optionsSchema = z.strictObject({ schema: schemaName.optional() });

/** Options of `webhookInboxMigrations`. */
export interface MigrationOptions {
  /**
   * The schema of the package's tables; it is made where it is missing. Give it to `WebhooksModule.forRoot` too.
   * @default the DataSource's `schema`, else PostgreSQL's `current_schema()` as it connects
   */
  readonly schema?: string;
}

function migrationsFor(options: MigrationOptions = {}): (typeof WebhookInbox1796000000000)[] {
  check(optionsSchema, options, 'webhookInboxMigrations');
  const { schema } = options;
  return schema === undefined ? [WebhookInbox1796000000000] : [inSchema(schema)];
}

/**
 * The package's migrations, for the `migrations` of the host's own DataSource. Objects of the application with the same names are
 * refused, never adopted or dropped.
 *
 * Without options it may be spread uncalled: `[...webhookInboxMigrations]`.
 * @throws ConfigurationError
 */
export const webhookInboxMigrations = Object.assign(migrationsFor, {
  [Symbol.iterator]: () => migrationsFor()[Symbol.iterator](),
});

/** Of another name, since services of one database may share TypeORM's table of the migrations that have run. */
function inSchema(schema: string): typeof WebhookInbox1796000000000 {
  return class extends WebhookInbox1796000000000 {
    override readonly name = `WebhookInbox_${schema}_1796000000000`;
    protected override readonly schema = schema;
  };
}

export type { WebhookInbox1796000000000 };
export { webhookEntities, WebhookEventView, WebhookWorkView } from '../src/storage/schema/view-entities.js';
/** Types of the views' columns. */
export type { DeadReason, EventState, OutboxState, ParkedReason } from '../src/core/states.js';
export type { EntityOptions } from '../src/storage/schema/view-entities.js';
