// npm run bench [ingest|drain|latency|end-to-end|scale|growth …] [--quick] [--claims N] [--only <name>] [--profile <folder>] [--away <ms>]
import { loadavg } from 'node:os';
import { parseArgs } from 'node:util';
import { drain } from './drain.js';
import { endToEnd } from './end-to-end.js';
import { growth } from './growth.js';
import { ingest } from './ingest.js';
import { latency } from './latency.js';
import { scale } from './scale.js';
import { start } from './support/program.js';
import { BENCHES, goalTable, machine, store, writeDocs, type Bench } from './support/report.js';
import type { Measured } from './support/rounds.js';
import { awayBy } from './support/away.js';
import { startServer, type Server } from './support/server.js';
import { settingsOf, type Settings } from './support/settings.js';

const RUN: Record<Bench, (server: Server, settings: Settings) => Promise<Measured[]>> = {
  ingest,
  drain,
  latency,
  'end-to-end': endToEnd,
  scale,
  growth,
};

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    claims: { type: 'string' },
    // Contenders whose names hold one of these texts. Nothing is stored then: ratios need all of them.
    only: { type: 'string', multiple: true },
    profile: { type: 'string' },
    // PostgreSQL so many milliseconds away, each way. Nothing is stored then either.
    away: { type: 'string' },
  },
});
const unknown = positionals.filter((name) => !BENCHES.some((bench) => bench === name));
if (unknown.length > 0) throw new Error(`${unknown.join(', ')}: expected ${BENCHES.join(', ')}`);
const benches = BENCHES.filter((bench) => positionals.length === 0 || positionals.includes(bench));
const settings = settingsOf(values);
const isPart = settings.only.length > 0 || settings.profile !== undefined || values.away !== undefined;

const startedAt = performance.now();
const near = await startServer();
const server = values.away === undefined ? near : await awayBy(Number(values.away), near);
try {
  const charts = await start('peers/charts.ts', {});
  for (const bench of benches) {
    console.log(`\n${bench}`);
    const circumstances = {
      date: new Date().toISOString().slice(0, 16).replace('T', ' '),
      machine: machine(),
      node: process.version,
      postgres: server.version,
      settings,
      loadBefore: loadavg()[0]!,
    };
    const measured = await RUN[bench](server, settings);
    for (const { name, bound, figures } of measured) {
      const micros = [figures.nodeMicros!, figures.postgresMicros!].map(({ median }) => Math.round(median));
      console.log(`${name}: ${micros.join(' + ')} us of Node and PostgreSQL; bound by ${bound}`);
    }
    if (isPart) continue;
    await store(bench, { circumstances, measured });
    await charts.run({ bench });
  }
  await charts.stop();
  if (!isPart) await writeDocs();
} finally {
  await server.stop();
}
const took = `in ${Math.round((performance.now() - startedAt) / 1_000)} s`;
console.log(
  isPart ? `${took}; nothing was stored` : `\n${goalTable()}\n\n${took}; written to docs/performance.md`,
);
process.exit(0);
