import { randomUUID } from 'node:crypto';
import type { Client } from 'pg';
import { leaseDue } from '../../../src/storage/outbox.sql.js';
import type { Sample } from '../check/plateau.js';
import { unsettled } from './coroner.js';
import type { Fleet } from './fleet.js';
import { LEASE_MS } from './fleet.js';

const NAMES = ['soaked/ChaosSoak.soaked', 'tell'];

const RELATIONS = `
  SELECT c.relname AS name, c.relkind = 'r' AS is_table,
         CASE c.relkind WHEN 'r' THEN pg_table_size(c.oid) ELSE pg_relation_size(c.oid) END::float8 AS bytes
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE n.nspname = 'public' AND c.relkind IN ('r', 'i') AND c.relname LIKE 'webhook\\_%'`;

const DEAD = `SELECT coalesce(sum(n_dead_tup), 0)::float8 AS dead FROM pg_stat_user_tables WHERE relname LIKE 'webhook\\_%'`;

/** Measures what must not grow, with the answers of the time since the last look. */
export class Sampler {
  private latencies: number[] = [];

  constructor(
    private readonly client: Client,
    private readonly fleet: Fleet,
  ) {}

  /** An acknowledgement, and how long it took. */
  acknowledged(ms: number): void {
    this.latencies.push(ms);
  }

  async sample(): Promise<Sample['values']> {
    const memory = await Promise.all(this.fleet.receivers.map((receiver) => receiver.memory()));
    const { rows: relations } = await this.client.query<Relation>(RELATIONS);
    const total = (isTable: boolean) =>
      relations.reduce((sum, one) => sum + (one.is_table === isTable ? one.bytes : 0), 0);
    const dead = await this.client.query<{ dead: number }>(DEAD);
    const latencies = this.latencies.toSorted((a, b) => a - b);
    this.latencies = [];
    const percentile = (part: number) => latencies[Math.floor(latencies.length * part)]!;
    const acks: Sample['values'] =
      latencies.length === 0 ? {} : { 'ack p50': percentile(0.5), 'ack p99': percentile(0.99) };
    return {
      heap: Math.max(...memory.map(({ heapBytes }) => heapBytes)),
      rss: Math.max(...memory.map(({ rssBytes }) => rssBytes)),
      ...acks,
      pending: await unsettled(this.client),
      'dead tuples': dead.rows[0]!.dead,
      'buffers per lease': await this.buffersPerLease(),
      'all tables': total(true),
      'all indexes': total(false),
      ...Object.fromEntries(relations.map(({ name, bytes }) => [name, bytes])),
    };
  }

  /** Pages that the relay's own statement looks at, for a row or none. It is carried out, and taken back. */
  private async buffersPerLease(): Promise<number> {
    const { client } = this;
    await client.query('BEGIN');
    try {
      const values = [
        randomUUID(),
        LEASE_MS,
        NAMES,
        NAMES.map(() => 20),
        NAMES.map(() => 1),
        1,
        NAMES.map(() => false),
        NAMES,
        NAMES.map(() => 1),
        NAMES.map(() => '-infinity'),
      ];
      const { rows } = await client.query<Explained>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${leaseDue(1)}`,
        values,
      );
      const plan = rows[0]!['QUERY PLAN'][0]!.Plan;
      return plan['Shared Hit Blocks'] + plan['Shared Read Blocks'];
    } finally {
      await client.query('ROLLBACK');
    }
  }
}

interface Relation {
  readonly name: string;
  readonly is_table: boolean;
  readonly bytes: number;
}

interface Explained {
  readonly 'QUERY PLAN': readonly {
    readonly Plan: { readonly 'Shared Hit Blocks': number; readonly 'Shared Read Blocks': number };
  }[];
}
