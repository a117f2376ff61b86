import type { EventEmitter } from 'node:events';
import { Query } from 'pg';
import type { PgResult } from './connection.js';
import { OWN_TYPES } from './own-types.js';

/** SQL of ours with its values. The text is one of few: each is prepared once on a connection, and kept there. */
export interface Statement {
  readonly sql: string;
  readonly values?: readonly unknown[];
}

/** The parsers of the answer: pg's parsers of the connection, or the package's own. */
export interface Types {
  getTypeParser(oid: number, format?: string): unknown;
}

/** A query of the application's, or of a store's through TypeORM, behind statements of ours. */
export interface QueryBehind extends Required<Statement> {
  readonly types?: Types;
}

/** The answers to a message. When it failed, these are the results of the statements before the failure. */
export interface Answers {
  readonly error: Error | null;
  readonly results: PgResult[];
}

/** The part of pg's connection below its queries that this package uses, as pg-cursor does. */
interface PgConnection {
  readonly stream: { cork?(): void; uncork?(): void };
  parse(statement: { readonly name?: string; readonly text: string }): void;
  bind(portal: { readonly statement?: string; readonly values: readonly Encoded[] }): void;
  describe(portal: { readonly type: 'P' }): void;
  execute(portal: object): void;
  close(statement: { readonly type: 'S'; readonly name: string }): void;
  sync(): void;
}

/** A statement that is prepared on a connection. */
export interface Prepared {
  readonly since: number;
  uses: number;
  /** Of its rows; undefined where it gives none. Described once: of thirty columns that takes longer than reading a row of them. */
  readonly fields: unknown;
}

/**
 * How long a plan is kept. A kept plan fits the table as it was: one made for a table of one page reads it from end to end. PostgreSQL
 * makes it anew when autovacuum has run, up to a minute later. Here it is never older than this.
 */
const PLAN_MS = 10_000;
/** A plan that is used often is made anew sooner, after so many milliseconds and uses. PostgreSQL plans the first five uses one by one. */
const BUSY_PLAN_MS = 1_000;
const BUSY_USES = 100;

/** pg's Query. Its types declare little of it. */
const PgQuery = Query as unknown as new (
  text: string,
  values?: readonly unknown[],
) => EventEmitter & {
  readonly _results: PgResult | PgResult[];
  /** Of the statement whose answer comes. */
  readonly _result: { _types?: Types };
  /** Writes the query itself, to its end, with the Sync behind it. */
  prepare(to: PgConnection): void;
  handleError(error: Error, connection: unknown): void;
  handleRowDescription(message: { readonly fields: unknown }): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: unknown): void;
};

/**
 * The text of a message for wrappers of the client, when it holds nothing of the application. A copy that a wrapper makes is sent as this
 * text, which does nothing, in a transaction or outside one.
 */
const SHOWN = `SELECT 'several statements of nestjs-webhook-inbox, in one message' AS shown`;

/** For pg this is a query with several results, as with several statements in its text. Only the way of sending differs. */
export class OneMessage extends PgQuery {
  /** pg has got it, rather than a copy of it. */
  isReached = false;
  /** The fields of what is prepared by it, as they are described. */
  private readonly fresh = new Map<string, unknown>();
  /** For each statement whose rows the server does not describe again: as it did. */
  private readonly described = new Map<number, unknown>();
  /** Values of each statement. Made before anything is sent: half a message would never be answered. */
  private readonly encoded: readonly (readonly Encoded[])[];
  /** The connection's. */
  private theirs: Types | undefined;
  /** Which statement's answer comes. */
  private nth = 0;

  constructor(
    /** Of ours. */
    readonly statements: readonly Statement[],
    /** Behind them, of the application's. */
    readonly query: QueryBehind | undefined,
    /** Under which name each of ours is prepared; undefined where it is not to be. */
    private readonly names: readonly (string | undefined)[],
    /** The statements prepared on the connection, by name. This query adds to them. */
    private readonly prepared: Map<string, Prepared>,
    done: (answers: Answers) => void,
  ) {
    // Without its values, PostgreSQL refuses a copy of the application's query, which would run outside its transaction.
    super(query?.sql ?? SHOWN);
    this.encoded = statements.map(({ values = [] }) => values.map(encode));
    Object.assign(this, {
      callback: (error: Error | null) => {
        // After an error it is not known which of them were prepared.
        if (error === null)
          for (const [name, fields] of this.fresh)
            prepared.set(name, { since: performance.now(), uses: 0, fields });
        // pg reports a failure to the callback alone.
        this.emit('close');
        done(this.answers(error));
      },
    });
  }

  /** The answers until now. */
  answers(error: Error | null): Answers {
    const results = [this._results].flat();
    return { error, results: error === null ? results : results.filter(({ command }) => command !== null) };
  }

  /** Called by pg when it is this query's turn. pg takes the returned value for an error. */
  submit(to: PgConnection): null {
    this.isReached = true;
    to.stream.cork?.();
    try {
      for (const nth of this.statements.keys()) this.send(to, nth);
      if (this.query === undefined) to.sync();
      else this.prepareBehind(to, this.query.values);
    } finally {
      to.stream.uncork?.();
    }
    return null;
  }

  private prepareBehind(to: PgConnection, values: readonly unknown[]): void {
    Object.assign(this, { values });
    this.prepare(to);
    Object.assign(this, { values: undefined });
  }

  override handleError(error: Error, connection: unknown): void {
    this.isReached = true;
    super.handleError(error, connection);
  }

  override handleRowDescription(message: { readonly fields: unknown }): void {
    const name = this.names[this.nth];
    if (name !== undefined && this.fresh.has(name)) this.fresh.set(name, message.fields);
    this.describeRows(message.fields);
  }

  private describeRows(fields: unknown): void {
    this.theirs ??= this._result._types;
    const isOurs = this.nth < this.statements.length;
    this._result._types = isOurs ? OWN_TYPES : (this.query?.types ?? this.theirs);
    super.handleRowDescription({ fields });
  }

  override handleDataRow(message: unknown): void {
    const fields = this.described.get(this.nth);
    if (fields !== undefined) {
      this.described.delete(this.nth);
      this.describeRows(fields);
    }
    super.handleDataRow(message);
  }

  override handleCommandComplete(message: unknown, connection: unknown): void {
    this.nth += 1;
    super.handleCommandComplete(message, connection);
  }

  private send(to: PgConnection, nth: number): void {
    const { sql } = this.statements[nth]!;
    const name = this.names[nth];
    const is = name === undefined ? undefined : this.prepared.get(name);
    const isPrepared = is !== undefined && !isOld(is);
    if (name === undefined) to.parse({ text: sql });
    else if (!isPrepared) {
      // One that is old, or left over from a message that failed, would be in the way. To close none is no error.
      to.close({ type: 'S', name });
      to.parse({ name, text: sql });
      this.fresh.set(name, undefined);
    }
    to.bind({ statement: name, values: this.encoded[nth]! });
    if (isPrepared) {
      is.uses += 1;
      this.described.set(nth, is.fields);
    } else to.describe({ type: 'P' });
    to.execute({});
  }
}

function isOld({ since, uses }: Prepared): boolean {
  const ageMs = performance.now() - since;
  return ageMs >= PLAN_MS || (ageMs >= BUSY_PLAN_MS && uses >= BUSY_USES);
}

type Encoded = string | Buffer | null;

/** A value as PostgreSQL reads it. Bytes stay bytes; arrays of ours have one dimension. */
function encode(value: unknown): Encoded {
  if (value === null || value === undefined) return null;
  if (Buffer.isBuffer(value)) return value;
  if (!Array.isArray(value)) return text(value);
  let list = '{';
  for (let index = 0; index < value.length; index += 1) {
    if (index > 0) list += ',';
    list += element(value[index]);
  }
  return `${list}}`;
}

function element(value: unknown): string {
  if (value === null || value === undefined) return 'NULL';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (Buffer.isBuffer(value)) return `"\\\\x${value.toString('hex')}"`;
  const plain = text(value);
  return SPECIAL.test(plain) ? `"${plain.replaceAll(SPECIALS, '\\$&')}"` : `"${plain}"`;
}

const SPECIAL = /["\\]/;
const SPECIALS = /["\\]/g;

function text(value: unknown): string {
  if (typeof value === 'string') return value;
  return value instanceof Date ? value.toISOString() : String(value);
}
