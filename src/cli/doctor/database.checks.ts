import type { DataSource } from 'typeorm';
import { DoctorStore } from '../../storage/desk/doctor.store.js';
import { span } from '../terminal/table.js';
import { error, hint, warning, type Check } from './finding.js';

const OLDEST_VERSION = 140_000;
const SKEW_MS = 2_000;
const SNAPSHOT_MS = 10 * 60_000;
/** Tries to see two connections on one process of the server: a pooler may hand out another one. */
const TRIES = 5;

export const serverCheck: Check = {
  name: 'server',
  run: async ({ app, read }) => {
    const { version } = await read((manager) => app.get(DoctorStore, { strict: false }).server(manager));
    if (version >= OLDEST_VERSION) return [];
    return [error(`the server is PostgreSQL ${Math.floor(version / 10_000)}`, 'use PostgreSQL 14 or later')];
  },
};

/** Signatures are held to this process's clock, leases and due times to the database's. */
export const clockCheck: Check = {
  name: 'clocks',
  run: async ({ app, read }) => {
    const before = Date.now();
    const { nowMs } = await read((manager) => app.get(DoctorStore, { strict: false }).server(manager));
    const after = Date.now();
    // The answer was made at some time between the two.
    const skewMs = Math.max(before - nowMs, nowMs - after, 0);
    if (skewMs < SKEW_MS) return [];
    return [
      warning(
        `the clocks of this machine and of the database differ by ${span(skewMs)}`,
        'synchronise both with NTP: the receiving process compares a signed time with its own clock',
      ),
    ];
  },
};

export const poolerCheck: Check = {
  name: 'pooler',
  run: async ({ app, dataSource, options }) => {
    if (!(await sharesProcesses(dataSource, app.get(DoctorStore, { strict: false })))) return [];
    const { relay } = options;
    const ownWay = relay === false || relay.listen === false || relay.listen.url !== undefined;
    return [
      ...(ownWay
        ? []
        : [
            warning(
              'the connection leads through a pooler in transaction mode: LISTEN does not work, and relays poll',
              "give the relay a direct address: relay: { listen: { url: 'postgres://…' } }, or relay: { listen: false }",
            ),
          ]),
      ...(options.preparedStatements
        ? [
            hint(
              'the connection leads through a pooler in transaction mode, which may not support prepared statements',
              'set preparedStatements: false where the pooler has no support for them, such as pgbouncer before 1.21',
            ),
          ]
        : []),
    ];
  },
};

/** A connection has a process of the server to itself, unless a pooler lends it another one, or lends one to two of them. */
async function sharesProcesses(dataSource: DataSource, store: DoctorStore): Promise<boolean> {
  const [one, other] = [dataSource.createQueryRunner(), dataSource.createQueryRunner()];
  const seen = new Set<number>();
  try {
    for (let tries = 0; tries < TRIES; tries += 1) {
      const first = await store.backend(one.manager);
      await other.startTransaction();
      const second = await store.backend(other.manager);
      await other.rollbackTransaction();
      if (first === second || seen.add(first).size > 1) return true;
    }
    return false;
  } finally {
    await Promise.all([one.release(), other.release()]);
  }
}

/** Rows that were deleted or rewritten since stay in the table, and every lease steps over them. */
export const snapshotCheck: Check = {
  name: 'snapshots',
  run: async ({ app, read }) => {
    const oldest = await read((manager) => app.get(DoctorStore, { strict: false }).oldestSnapshot(manager));
    if (oldest === undefined || oldest.ageMs < SNAPSHOT_MS) return [];
    const { pid, application, state, ageMs } = oldest;
    return [
      warning(
        `a transaction of '${application}' (pid ${pid}, ${state}) has been open for ${span(ageMs)}: vacuum removes no row that ended since`,
        `end it, or SELECT pg_terminate_backend(${pid}); set idle_in_transaction_session_timeout for the role of that application`,
      ),
    ];
  },
};
