import { ingest } from './ingest.js';
import { drain } from './drain.js';
import { writeFileSync } from 'node:fs';
import { startServer } from './support/server.js';
import { settingsOf } from './support/settings.js';
const server = await startServer();
try { writeFileSync('/tmp/bench.json', JSON.stringify(await drain(server, {...settingsOf(true, undefined), jobs: 2000}), null, 1)); } finally { await server.stop(); }
process.exit(0);
