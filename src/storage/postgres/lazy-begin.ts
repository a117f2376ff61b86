import type { PgClient } from './connection.js';
import type { Answers, QueryBehind, Statement } from './message-query.js';
import { queryBehind, writesProtocol } from './one-message.js';
import { OWN_TYPES } from './own-types.js';

/**
 * Begins a transaction with its first query, in one message with it where it has values: a round trip less for each run, and none before
 * its code starts. Nothing is sent past a BEGIN that has failed: it would be committed by itself.
 */
export class LazyBegin {
  /** Since something was sent: rejected when that did not begin it. */
  opening: Promise<void> | undefined;
  isOpen = false;
  /** BEGIN and its settings. */
  readonly statements: readonly Statement[];

  constructor(
    private readonly client: PgClient,
    readonly pass: PgClient['query'],
    statements: readonly string[],
  ) {
    this.statements = statements.map((sql) => ({ sql }));
  }

  /** A transaction that other code has begun. */
  static begun(client: PgClient, pass: PgClient['query']): LazyBegin {
    const begun = new LazyBegin(client, pass, []);
    void begun.trackOpening(Promise.resolve());
    begun.isOpen = true;
    return begun;
  }

  /** Sends a query, one at a time. */
  readonly send = async (query: unknown, values?: unknown): Promise<unknown> => {
    if (this.opening === undefined) {
      const plain = writesProtocol(this.client) ? plainQuery(query, values) : undefined;
      const answers = await (plain === undefined ? this.begin() : this.openWith(plain));
      if (answers !== undefined) return answerOf(answers);
    } else if (!this.isOpen) await this.opening;
    return this.pass(query as string, values as unknown[]);
  };

  /** By a message of its own, unless it has begun. */
  readonly begin = (): Promise<void> => this.opening ?? this.trackOpening(this.beginAlone());

  private openWith(query: QueryBehind): Promise<Answers | undefined> {
    const sent = queryBehind(this.client, this.statements, query, this.pass);
    return this.trackOpening(
      sent.then(async (answers) => {
        // Nothing of it was done.
        if (answers === undefined) await this.beginAlone();
        else if (answers.results.length < this.statements.length) throw answers.error!;
        return answers;
      }),
    );
  }

  private async beginAlone(): Promise<undefined> {
    await this.pass(this.statements.map(({ sql }) => sql).join('; '));
  }

  private trackOpening<T>(sent: Promise<T>): Promise<T> {
    this.opening = sent.then(() => {
      this.isOpen = true;
    });
    // The callers that send, and the COMMIT, get the error.
    this.opening.catch(() => undefined);
    return sent;
  }
}

function answerOf({ error, results }: Answers): unknown {
  if (error !== null) throw error;
  return results.at(-1);
}

/** A query with values and nothing else: one that can go behind a BEGIN. */
function plainQuery(query: unknown, values: unknown): QueryBehind | undefined {
  if (typeof query === 'string') return hasValues(values) ? { sql: query, values } : undefined;
  const { text, values: own, types, ...others } = Object(query) as Partial<Record<string, unknown>>;
  const isPlain = types === OWN_TYPES && typeof text === 'string' && Object.keys(others).length === 0;
  return isPlain && hasValues(own) ? { sql: text, values: own, types: OWN_TYPES } : undefined;
}

function hasValues(values: unknown): values is readonly unknown[] {
  return Array.isArray(values) && values.length > 0;
}
