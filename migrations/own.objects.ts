import type { QueryRunner } from 'typeorm';
import { ConfigurationError } from '../src/core/errors.js';
import { quoted } from '../src/storage/schema/own-schema.js';

/** The comment by which the catalogue tells an object of ours from one of the application's that has its name. */
const MARK = 'nestjs-webhook-inbox';

/** An object of ours in the database. */
export interface OwnObject {
  readonly kind: 'table' | 'index' | 'view' | 'function';
  readonly name: string;
  /** Names of what PostgreSQL makes with it. */
  readonly parts: readonly string[];
  /** May run twice. `schema` is a quoted identifier. */
  readonly create: (schema: string) => string;
}
/** The rest of a CREATE, behind the object's name. */
type Definition = string | ((schema: string) => string);

export function table(name: string, definition: Definition): OwnObject {
  const sequence = typeof definition === 'string' && definition.includes('AS IDENTITY');
  return {
    kind: 'table',
    name,
    parts: [`${name}_pkey`, ...(sequence ? [`${name}_id_seq`] : [])],
    create: (schema) => `CREATE TABLE IF NOT EXISTS ${schema}.${name} ${defined(definition, schema)}`,
  };
}

/** No CREATE INDEX CONCURRENTLY: it fails inside a transaction. @param on the table's name, and the rest */
export function index(name: string, on: string, unique = ''): OwnObject {
  const create = (schema: string) => `CREATE ${unique} INDEX IF NOT EXISTS ${name} ON ${schema}.${on}`;
  return { kind: 'index', name, parts: [], create };
}

export function uniqueIndex(name: string, on: string): OwnObject {
  return index(name, on, 'UNIQUE');
}

export function view(name: string, definition: Definition): OwnObject {
  const create = (schema: string) =>
    `CREATE OR REPLACE VIEW ${schema}.${name} AS ${defined(definition, schema)}`;
  return { kind: 'view', name, parts: [], create };
}

export function func(name: string, definition: Definition): OwnObject {
  const create = (schema: string) =>
    `CREATE OR REPLACE FUNCTION ${schema}.${name}${defined(definition, schema)}`;
  return { kind: 'function', name, parts: [], create };
}

const defined = (definition: Definition, schema: string) =>
  typeof definition === 'string' ? definition : definition(schema);

/** Each with its comment in one message, which is a transaction: under `migrationsTransactionMode: 'none'` an object without is not ours. */
export async function createAll(
  runner: QueryRunner,
  schema: string,
  objects: readonly OwnObject[],
): Promise<void> {
  for (const { kind, name, create } of objects)
    await runner.query(
      `${create(quoted(schema))}; COMMENT ON ${kind} ${quoted(schema)}.${name} IS '${MARK}'`,
    );
}

/** All in one message. What depends on them, an application's view for one, has PostgreSQL refuse it. */
export async function dropAll(
  runner: QueryRunner,
  schema: string,
  objects: readonly OwnObject[],
): Promise<void> {
  const drops = (['view', 'table', 'function'] as const).map((kind) => {
    const names = objects.filter((one) => one.kind === kind).map(({ name }) => `${quoted(schema)}.${name}`);
    return `DROP ${kind} IF EXISTS ${names.join(', ')}`;
  });
  await runner.query(drops.join('; '));
}

/** @throws ConfigurationError naming each object that has a name of ours and is not ours */
export async function refuseForeign(
  runner: QueryRunner,
  schema: string,
  objects: readonly OwnObject[],
): Promise<void> {
  const named = (...kinds: readonly OwnObject['kind'][]) =>
    objects.filter(({ kind }) => kinds.includes(kind));
  const types = named('table', 'view').map(({ name }) => name);
  const relations = objects.flatMap(({ name, parts }) => [name, ...parts]);
  const functions = named('function').map(({ name }) => name);
  const found = (await runner.query(FOREIGN, [schema, relations, types, functions, MARK])) as {
    kind: string;
    name: string;
  }[];
  if (found.length === 0) return;
  const list = found.map(({ kind, name }) => `${kind} ${schema}.${name}`).join(', ');
  throw new ConfigurationError(
    `The migration of nestjs-webhook-inbox has changed nothing. Another program made these objects, which have names of this package: ${list}. ` +
      `Give the package a schema of its own: webhookInboxMigrations({ schema: 'webhooks' }) and ` +
      `WebhooksModule.forRoot({ schema: 'webhooks', … }). An object of the package carries the comment '${MARK}'; if a restore ` +
      `has lost it, add it: COMMENT ON ${found[0]!.kind} … IS '${MARK}'`,
  );
}

// An index and a sequence belong to their table. A type stands beside each table and view, by its name.
const FOREIGN = `
  SELECT CASE c.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'i' THEN 'index' WHEN 'I' THEN 'index'
                        WHEN 'S' THEN 'sequence' WHEN 'c' THEN 'type' WHEN 'f' THEN 'foreign table' ELSE 'table' END AS kind,
         c.relname::text AS name
    FROM pg_catalog.pg_class c
    LEFT JOIN pg_catalog.pg_index i ON i.indexrelid = c.oid
    LEFT JOIN pg_catalog.pg_depend d ON c.relkind = 'S' AND d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
                                    AND d.refclassid = 'pg_catalog.pg_class'::regclass
   WHERE c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AND c.relname = ANY($2)
     AND obj_description(coalesce(i.indrelid, d.refobjid, c.oid), 'pg_class') IS DISTINCT FROM $5
  UNION ALL
  SELECT 'type', t.typname::text FROM pg_catalog.pg_type t
   WHERE t.typnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AND t.typname = ANY($3) AND t.typrelid = 0
  UNION ALL
  SELECT 'function', p.proname::text FROM pg_catalog.pg_proc p
   WHERE p.pronamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) AND p.proname = ANY($4)
     AND obj_description(p.oid, 'pg_proc') IS DISTINCT FROM $5
   ORDER BY 2, 1`;
