import type { DataSource, EntitySubscriberInterface } from 'typeorm';
import type { ClaimsMode, OpenTransaction } from '../../core/options/options.js';

/** The application's choice for a DataSource. */
interface Chosen {
  readonly claims: ClaimsMode;
  /** Of the module's options: transactions of handlers are the application's own. */
  readonly open?: OpenTransaction;
}

export interface TransactionWay {
  /** Transactions that user code runs in are TypeORM's, or the application's. */
  readonly isTypeorms: boolean;
  /** Claims are made in transactions of TypeORM's. */
  readonly claimsAreTypeorms: boolean;
  readonly open: OpenTransaction | undefined;
  /** Why, for the log. */
  readonly why: string;
}

const chosen = new WeakMap<DataSource, Chosen>();

export function chooseWay(dataSource: DataSource, choice: Chosen): void {
  chosen.set(dataSource, choice);
}

/** Asked for each transaction: a subscriber may come later, in the constructor of a lazy module's provider. */
export function wayOf(dataSource: DataSource): TransactionWay {
  const { claims, open } = chosen.get(dataSource) ?? { claims: 'auto' };
  const seer = seenBy(dataSource);
  const claimsAreTypeorms = claims === 'auto' ? seer !== undefined : claims === 'typeorm';
  return {
    isTypeorms: claimsAreTypeorms || seer !== undefined || open !== undefined,
    claimsAreTypeorms,
    open,
    why:
      claims === 'auto'
        ? (seer ?? 'nothing of the application sees transactions or queries')
        : `claims: '${claims}'`,
  };
}

const HOOKS = [
  'beforeTransactionStart',
  'afterTransactionStart',
  'beforeTransactionCommit',
  'afterTransactionCommit',
  'beforeTransactionRollback',
  'afterTransactionRollback',
  'beforeQuery',
  'afterQuery',
] as const satisfies readonly (keyof EntitySubscriberInterface)[];

/** The part of the application that sees transactions or queries. */
function seenBy({ subscribers, options, logger }: DataSource): string | undefined {
  for (const subscriber of subscribers) {
    const hook = HOOKS.find((name) => subscriber[name] !== undefined);
    if (hook !== undefined) return `the subscriber ${subscriber.constructor.name} has ${hook}()`;
  }
  const { logging } = options;
  if (logging === true || logging === 'all' || (Array.isArray(logging) && logging.includes('query')))
    return 'the DataSource logs queries';
  return options.logger instanceof Object && logsQueries(logger)
    ? 'the DataSource has a logger of its own'
    : undefined;
}

/** TypeORM's own base class says so. Any other logger gets all queries, and decides by itself. */
function logsQueries(logger: object): boolean {
  const { isLogEnabledFor } = logger as { isLogEnabledFor?: (type: 'query') => boolean };
  return isLogEnabledFor === undefined || isLogEnabledFor.call(logger, 'query');
}
