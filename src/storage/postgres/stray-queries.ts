import { Injectable } from '@nestjs/common';
import type { DataSource } from 'typeorm';
import { InboxLogger } from '../../core/log/inbox.logger.js';
import { WebhookInboxError } from '../../core/errors.js';
import { logLine } from '../../core/log/log.js';
import { inPlaceOfQuery, type PgClient } from './connection.js';
import { queryText } from './query-text.js';
import { failCaller, insideUserCode } from './user-gate.js';

type Lent = [client: PgClient, release: (error?: Error) => void];
/** The place in TypeORM's driver where every query runner gets its connection. */
interface Driver {
  obtainMasterConnection(): Promise<Lent>;
}

const WRITE =
  /^\s*(insert|update|delete|merge|truncate|create|alter|drop|copy)\b|^\s*with\b[\s\S]*\b(insert|update|delete|merge)\b/i;
const REMEDY =
  'Write through the `manager` of the handler, or wrap a query that must be separate in outsideTransaction(() => …). ' +
  'For services under @Transactional(), set the option `transaction` of WebhooksModule.';

/**
 * The commonest mistake of a handler: a repository or a DataSource of its own instead of the manager it is given. Such a write stays
 * when the handler is rolled back, is made again at each attempt, and waits for a second connection while it holds the first.
 * In development and test it throws, and a read warns once for each place in the code; in production nothing is watched.
 */
@Injectable()
export class StrayQueries {
  private readonly logger = new InboxLogger();
  private readonly warned = new Set<string>();

  /**
   * Watches the connections of a DataSource when NODE_ENV is exactly `development` or `test`. Any other value except `production` is
   * logged.
   */
  watch(dataSource: DataSource): void {
    const { NODE_ENV = '' } = process.env;
    if (!['development', 'test'].includes(NODE_ENV)) {
      if (NODE_ENV !== 'production') this.logger.log(logLine(unwatched(NODE_ENV), {}));
      return;
    }
    const driver = dataSource.driver as unknown as Driver;
    const obtain = driver.obtainMasterConnection.bind(driver);
    driver.obtainMasterConnection = async () => {
      const lent = await obtain();
      return insideUserCode() ? this.watchClient(lent) : lent;
    };
  }

  private watchClient([client, release]: Lent): Lent {
    const query = client.query.bind(client);
    const putBack = inPlaceOfQuery(client, ((...args: Parameters<PgClient['query']>) => {
      this.check(args[0]);
      return query(...args);
    }) as PgClient['query']);
    const giveBack = (error?: Error) => {
      putBack();
      release(error);
    };
    return [client, giveBack];
  }

  private check(text: unknown): void {
    if (typeof text !== 'string') return;
    if (WRITE.test(text)) {
      throw failCaller(
        new WebhookInboxError(
          'OUTSIDE_TRANSACTION',
          `A handler wrote past its transaction: ${queryText(text)}. It would stay when the handler is rolled back. ${REMEDY}`,
        ),
      );
    }
    const place = new Error().stack
      ?.split('\n')
      .find((line) => line.includes('/') && !/node_modules|stray\.queries|node:/.test(line));
    if (/^\s*select\b/i.test(text) && place !== undefined && !this.warned.has(place)) {
      this.warned.add(place);
      this.logger.warn(
        logLine(`a handler reads past its transaction, and does not see its own writes. ${REMEDY}`, {
          at: place.trim(),
        }),
      );
    }
  }
}

/** `nest start` sets no NODE_ENV, so that who develops with it would never hear of the watch. */
function unwatched(environment: string): string {
  return (
    `NODE_ENV is ${environment === '' ? 'not set' : `'${environment}'`}: queries past a handler's transaction are not detected. ` +
    'Set NODE_ENV=development (or test) on your own machine: then such a write throws, and such a read warns'
  );
}
