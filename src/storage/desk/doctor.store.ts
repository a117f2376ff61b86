import { Injectable } from '@nestjs/common';
import type { EntityManager } from 'typeorm';
import { query } from '../schema/own-schema.js';

/** Events of a type among the newest of a source. */
export interface ArrivedType {
  readonly type: string;
  readonly events: number;
  readonly lastAt: Date;
}

/** A transaction that keeps dead rows from being removed. */
export interface OldSnapshot {
  readonly pid: number;
  readonly application: string;
  readonly state: string;
  readonly ageMs: number;
}

/** An object of a schema, with its definition as PostgreSQL writes it; the schema's own name is left out. */
export interface CatalogObject {
  readonly name: string;
  readonly definition: string;
}

/** Events of a source that are read for their types. */
const NEWEST = 10_000;

/** Reads of the doctor. */
@Injectable()
export class DoctorStore {
  async arrivedTypes(manager: EntityManager, source: string): Promise<ArrivedType[]> {
    return query(
      manager,
      `SELECT event_type AS type, count(*)::int AS events, max(received_at) AS "lastAt"
         FROM (SELECT event_type, received_at FROM webhook_claim WHERE source = $1
                ORDER BY received_at DESC LIMIT ${NEWEST}) newest
        GROUP BY event_type ORDER BY events DESC, type LIMIT 500`,
      [source],
    );
  }

  async oldestSnapshot(manager: EntityManager): Promise<OldSnapshot | undefined> {
    const [row]: OldSnapshot[] = await query(
      manager,
      `SELECT pid, coalesce(application_name, '') AS application, coalesce(state, '') AS state,
              (extract(epoch FROM clock_timestamp() - xact_start) * 1000)::float8 AS "ageMs"
         FROM pg_catalog.pg_stat_activity
        WHERE datname = current_database() AND backend_xmin IS NOT NULL AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
        ORDER BY xact_start LIMIT 1`,
    );
    return row;
  }

  /** Version of the server, such as 160004, and its clock in milliseconds since 1970. */
  async server(manager: EntityManager): Promise<{ readonly version: number; readonly nowMs: number }> {
    const [row]: [{ version: number; nowMs: number }] = await query(
      manager,
      `SELECT current_setting('server_version_num')::int AS version,
              (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS "nowMs"`,
    );
    return row;
  }

  /** The server's process that serves a connection right now. */
  async backend(manager: EntityManager): Promise<number> {
    const [row]: [{ pid: number }] = await query(manager, `SELECT pg_backend_pid() AS pid`);
    return row.pid;
  }

  /** Tables with their columns, constraints, indexes, functions and views of ours in a schema. In a transaction of the caller's. */
  async objects(manager: EntityManager, schema: string): Promise<CatalogObject[]> {
    // So that PostgreSQL names every schema in what it writes.
    await query(manager, `SET LOCAL search_path = pg_catalog`);
    return query(manager, OBJECTS, [schema]);
  }
}

const OBJECTS = `
  WITH relations AS (
    SELECT c.oid, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = $1 AND c.relname LIKE 'webhook\\_%'
  ), found(name, definition) AS (
    SELECT format('column %s.%s', r.relname, a.attname),
           concat_ws(' ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END, pg_get_expr(d.adbin, d.adrelid))
      FROM relations r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
      LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
     WHERE r.relkind IN ('r', 'p')
    UNION ALL
    SELECT format('constraint %s of %s', k.conname, r.relname), pg_get_constraintdef(k.oid)
      FROM relations r JOIN pg_constraint k ON k.conrelid = r.oid WHERE k.contype IN ('p', 'u', 'c')
    UNION ALL
    SELECT format('index %s', r.relname), pg_get_indexdef(r.oid) || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END
      FROM relations r JOIN pg_index i ON i.indexrelid = r.oid
    UNION ALL
    SELECT format('view %s', r.relname), pg_get_viewdef(r.oid) FROM relations r WHERE r.relkind = 'v'
    UNION ALL
    SELECT format('function %s', p.proname), pg_get_functiondef(p.oid)
      FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND p.proname LIKE 'webhook\\_%'
  )
  SELECT name, replace(definition, quote_ident($1) || '.', '') AS definition FROM found ORDER BY name`;
