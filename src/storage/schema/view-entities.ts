import { EntitySchema, type DataSource, type EntitySchemaColumnOptions } from 'typeorm';
import { z } from 'zod';
import { check, schemaName } from '../../core/options/schema.js';
import type { DeadReason, EventState, OutboxState, ParkedReason } from '../../core/states.js';

/** An event, with what has become of it: a row of the view `webhook_event`. Read only. */
export class WebhookEventView {
  /** Ours, as in logs. An event is known by its source, tenant and event id. */
  readonly id!: string;
  readonly source!: string;
  readonly tenant!: string;
  readonly eventId!: string;
  readonly eventType!: string;
  readonly occurredAt!: Date | null;
  readonly receivedAt!: Date;
  readonly origin!: 'delivery' | 'backfill';
  readonly verifiedBy!: string;
  /** Handlers that matched as it came. */
  readonly owed!: number;
  readonly state!: EventState;
  readonly outcome!: string | null;
  readonly processedAt!: Date | null;
  readonly effectsPending!: number;
  readonly effectsDone!: number;
  readonly effectsDead!: number;
  readonly effectsParked!: number;
}

/** A run of a handler or an effect that is owed, or was: a row of the view `webhook_work`. Read only. */
export class WebhookWorkView {
  /** The outbox id: an effect's idempotency key. */
  readonly id!: string;
  readonly kind!: 'handler' | 'effect';
  readonly name!: string;
  readonly key!: string;
  readonly state!: OutboxState;
  readonly attempt!: number;
  readonly lost!: number;
  readonly reason!: DeadReason | ParkedReason | null;
  readonly error!: string | null;
  /** Where the error was thrown in the application's code: `file:line:column`. */
  readonly place!: string | null;
  readonly result!: string | null;
  readonly createdAt!: Date;
  /** When it is tried next, or when its lease ends. */
  readonly dueAt!: Date;
  readonly settledAt!: Date | null;
  /** Of an effect: the row whose run enqueued it; null where the application did. */
  readonly parentId!: string | null;
  readonly source!: string | null;
  readonly tenant!: string | null;
  readonly eventId!: string | null;
}

type Columns<T> = { readonly [K in keyof T]-?: EntitySchemaColumnOptions };

const uuid = { type: 'uuid' } as const;
const text = { type: 'text' } as const;
const int = { type: 'int' } as const;
const time = { type: 'timestamptz' } as const;

const EVENT: Columns<WebhookEventView> = {
  id: { ...uuid, primary: true },
  source: text,
  tenant: text,
  eventId: { ...text, name: 'event_id' },
  eventType: { ...text, name: 'event_type' },
  occurredAt: { ...time, name: 'occurred_at', nullable: true },
  receivedAt: { ...time, name: 'received_at' },
  origin: text,
  verifiedBy: { ...text, name: 'verified_by' },
  owed: int,
  state: text,
  outcome: { ...text, nullable: true },
  processedAt: { ...time, name: 'processed_at', nullable: true },
  effectsPending: { ...int, name: 'effects_pending' },
  effectsDone: { ...int, name: 'effects_done' },
  effectsDead: { ...int, name: 'effects_dead' },
  effectsParked: { ...int, name: 'effects_parked' },
};

const WORK: Columns<WebhookWorkView> = {
  id: { ...uuid, primary: true },
  kind: text,
  name: text,
  key: text,
  state: text,
  attempt: int,
  lost: int,
  reason: { ...text, nullable: true },
  error: { ...text, nullable: true },
  place: { ...text, nullable: true },
  result: { ...text, nullable: true },
  createdAt: { ...time, name: 'created_at' },
  dueAt: { ...time, name: 'due_at' },
  settledAt: { ...time, name: 'settled_at', nullable: true },
  parentId: { ...uuid, name: 'parent_id', nullable: true },
  source: { ...text, nullable: true },
  tenant: { ...text, nullable: true },
  eventId: { ...text, name: 'event_id', nullable: true },
};

const VIEWS = new Map<unknown, string>([
  [WebhookEventView, 'webhook_event'],
  [WebhookWorkView, 'webhook_work'],
]);

/** Options of `webhookEntities`. */
export interface EntityOptions {
  /** The schema of the package's tables. @default the DataSource's `schema`, else where its connection's search_path leads */
  readonly schema?: string;
}

/**
 * Read-only entities over the package's views, for repositories and joins: `entities: [Invoice, ...webhookEntities()]`, then
 * `getRepository(WebhookEventView)`. TypeORM neither makes nor changes nor drops what they stand for, and PostgreSQL refuses a write.
 * @throws ConfigurationError
 */
export function webhookEntities(options: EntityOptions = {}): EntitySchema[] {
  check(z.strictObject({ schema: schemaName.optional() }), options, 'webhookEntities');
  return [entity(WebhookEventView, EVENT, options), entity(WebhookWorkView, WORK, options)];
}

function entity<T extends object>(
  target: new () => T,
  columns: Columns<T>,
  { schema }: EntityOptions,
): EntitySchema {
  const name = target.name;
  return new EntitySchema<object>({
    target,
    name,
    tableName: VIEWS.get(target),
    schema,
    type: 'view',
    synchronize: false,
    columns,
  });
}

/** Has an application's `entityPrefix`, which TypeORM puts before each name, and its naming strategy pass these by. */
export function keepViewNames({ entityMetadatas, driver }: DataSource): void {
  for (const metadata of entityMetadatas) {
    const tableName = VIEWS.get(metadata.target);
    if (tableName === undefined || metadata.tableName === tableName) continue;
    const tablePath = driver.buildTableName(tableName, metadata.schema, metadata.database);
    Object.assign(metadata, { tableName, tableNameWithoutPrefix: tableName, tablePath });
  }
}
