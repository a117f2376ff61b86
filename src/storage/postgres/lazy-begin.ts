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
    const pass = () => this.pass(query as string, values as unknown[]);
    if (this.isOpen) return pass();
    const plain = this.opening === undefined ? plainQuery(query, values) : undefined;
    if (plain !== undefined) return this.openWith(plain, pass);
    await this.begin();
    return pass();
  };

  /** By a message of its own, unless it has begun. */
  readonly begin = (): Promise<void> => this.opening ?? this.trackOpening(this.beginAlone());

  private async openWith(query: QueryBehind, pass: () => unknown): Promise<unknown> {
    if (!writesProtocol(this.client)) {
      await this.begin();
      return pass();
    }
    const sent = queryBehind(this.client, this.statements, query, this.pass);
    await this.trackOpening(sent.then((answers) => this.recordBegin(answers)));
    const answers = await sent;
    if (answers === undefined) return pass();
    if (answers.error !== null) throw answers.error;
    return answers.results.at(-1);
  }

  private async recordBegin(answers: Answers | undefined): Promise<void> {
    if (answers === undefined) await this.beginAlone();
    else if (answers.results.length < this.statements.length) throw answers.error;
  }

  private beginAlone(): Promise<unknown> {
    return this.pass(this.statements.map(({ sql }) => sql).join('; '));
  }

  private trackOpening(sent: Promise<unknown>): Promise<void> {
    const opening = sent.then(() => {
      this.isOpen = true;
    });
    // The callers that send, and the COMMIT, get the error.
    opening.catch(() => undefined);
    this.opening = opening;
    return opening;
  }
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
