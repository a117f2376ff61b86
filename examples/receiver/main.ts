import { Logger } from '@nestjs/common';
import { ConfigurationError } from '../../src/index.js';
import { startPostgres } from '../support/postgres.js';
import { DASHBOARD_PATH, dashboard } from './dashboard.js';
import { serve } from './receiver.js';
import { readSettings } from './settings.js';

try {
  const settings = readSettings(process.env);
  const postgres = await startPostgres();
  const app = await serve(settings, postgres).catch(async (error: unknown) => {
    await postgres.stop();
    throw error;
  });
  const names = Object.keys(settings.sources).join(',');
  const logger = new Logger('Receiver');
  logger.log(`POST ${await app.getUrl()}/webhooks/{${names}}`);
  if (dashboard(settings).length > 0) logger.log(`Dashboard: ${await app.getUrl()}/${DASHBOARD_PATH}`);
} catch (error) {
  const fault = expectedFault(error);
  console.error(fault === undefined ? error : `The receiver did not start.\n${fault}`);
  process.exit(1);
}

/** What a person can put right: wrong settings, a port that is taken, a database that cannot be used. Only these need no stack trace. */
function expectedFault(error: unknown): string | undefined {
  if (error instanceof ConfigurationError) return error.message;
  if (!(error instanceof Error) || !('code' in error)) return undefined;
  // A refused connection to a host with several addresses is an AggregateError, whose own message is empty.
  const message = error instanceof AggregateError ? error.errors.map(String).join('; ') : error.message;
  return 'syscall' in error && error.syscall === 'listen'
    ? `PORT: ${message}; set PORT to one that is free`
    : `DATABASE_URL: ${message}`;
}
