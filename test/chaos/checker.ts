// Judges a run by what its provider, its sink and its killer have noted, and by the tables; it knows nothing of how they came about.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client } from 'pg';
import { check } from './check/invariants.js';
import { readTables } from './check/tables.js';
import type { Faults } from './check/verdict.js';
import { LOGS, readLog, type Kill, type Outage, type Overdue, type Sent, type SinkCall } from './play/log.js';

const [dir, databaseUrl, faults, way] = process.argv.slice(2);
if (dir === undefined || databaseUrl === undefined || faults === undefined)
  throw new Error(
    'usage: checker <dir> <database url> <kills | clocks | stops | promotions | retention> [pooled]',
  );

const client = new Client({ connectionString: databaseUrl });
await client.connect();
const tables = await readTables(client);
await client.end();
const logs = {
  sent: readLog<Sent>(join(dir, LOGS.provider)),
  calls: readLog<SinkCall>(join(dir, LOGS.sink)),
  kills: readLog<Kill>(join(dir, LOGS.kills)),
  outages: readLog<Outage>(join(dir, LOGS.outages)),
  overdue: readLog<Overdue>(join(dir, LOGS.overdue)),
};
const verdict = check(tables, logs, faults as Faults, way !== 'pooled');
writeFileSync(join(dir, 'verdict.json'), JSON.stringify(verdict, undefined, 2));
process.exit(verdict.faults.length === 0 ? 0 : 1);
