import type { PgClient } from './connection.js';
import type { Statement } from './message.query.js';
import { queryBehind, writesProtocol } from './one.message.js';

/** A cursor, a stream: pg calls `submit` when its turn has come. What that returns is the query's failure. */
interface Submittable {
  submit(connection: unknown): Error | null | undefined;
}

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
    private readonly passThrough: PgClient['query'],
    statements: readonly string[],
  ) {
    this.statements = statements.map((sql) => ({ sql }));
  }

  /** What pg's client gives back for the query. */
  send(...args: readonly unknown[]): unknown {
    const pass = (): unknown => this.passThrough(...(args as Parameters<PgClient['query']>));
    if (this.isOpen) return pass();
    const [query, values] = args as [string | Partial<Submittable>, unknown];
    if (this.opening === undefined && typeof query === 'string' && hasValues(values) && args.length === 2)
      return this.openWith(query, values);
    const opening = this.begin();
    if (typeof query === 'string' || query.submit === undefined) return opening.then(pass);
    // pg gives it back at once.
    this.onlyWithin(query as Submittable);
    return pass();
  }

  /** By a message of its own, unless it has begun. */
  begin(): Promise<void> {
    return this.opening ?? this.opens(this.passThrough(this.statements.map(({ sql }) => sql).join('; ')));
  }

  private async openWith(sql: string, values: readonly unknown[]): Promise<unknown> {
    if (!writesProtocol(this.client)) {
      await this.begin();
      return this.passThrough(sql, values);
    }
    const sent = queryBehind(this.client, this.statements, { sql, values }, this.passThrough);
    const opening = this.opens(
      sent.then(({ error, results }) => {
        if (results.length < this.statements.length) throw error;
      }),
    );
    const { error, results } = await sent;
    await opening;
    if (error !== null) throw error;
    return results.at(-1);
  }

  private opens(sent: Promise<unknown>): Promise<void> {
    const opening = sent.then(() => {
      this.isOpen = true;
    });
    // Whoever sends, and the COMMIT, fails by it.
    opening.catch(() => undefined);
    this.opening = opening;
    return opening;
  }

  private onlyWithin(query: Submittable): void {
    const submit = query.submit.bind(query);
    query.submit = (connection) =>
      this.client.getTransactionStatus() === 'I'
        ? new Error('the transaction could not be begun')
        : submit(connection);
  }
}

function hasValues(values: unknown): values is readonly unknown[] {
  return Array.isArray(values) && values.length > 0;
}
