import { sqlStateOf } from '../../core/classify.js';
import { InputRefused, NotAnswered, WebhookInboxError } from '../../core/errors.js';
import { errorText } from '../../core/log/log.js';

/** Exit codes, as docs/command-line.md lists them. */
export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  nothing: 3,
  database: 4,
  partly: 5,
  interrupted: 130,
} as const;
export type Exit = (typeof EXIT)[keyof typeof EXIT];

/** Ends a command with a text for its reader and an exit code. */
export class Ended extends Error {
  constructor(
    readonly code: Exit,
    message: string,
  ) {
    super(message);
  }
}

/** The command line is wrong. The text names the wrong part, the expected value, and the right command. */
export class UsageError extends Ended {
  constructor(message: string) {
    super(EXIT.usage, message);
  }
}

/** Errors of Node and pg for a server that cannot be reached, or that refuses the connection. */
const UNREACHABLE =
  /ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EPIPE|Connection terminated|timeout expired/;

/** The exit code and the text for an error. */
export function endOf(error: unknown): { readonly code: Exit; readonly text: string } {
  if (error instanceof Ended) return { code: error.code, text: error.message };
  if (error instanceof InputRefused) return { code: EXIT.usage, text: error.message };
  if (error instanceof NotAnswered) return { code: EXIT.database, text: error.message };
  if (error instanceof WebhookInboxError) return { code: EXIT.failed, text: error.message };
  return databaseEnd(error) ?? { code: EXIT.failed, text: errorText(error) };
}

function databaseEnd(error: unknown): { readonly code: Exit; readonly text: string } | undefined {
  const state = sqlStateOf(error);
  const { database: code } = EXIT;
  if (state === '42P01')
    return {
      code,
      text: `the package's tables are missing in this database: run the migrations, or give their schema with --schema`,
    };
  if (state === '57014')
    return {
      code,
      text: 'the question took longer than 2 s and was stopped: ask for less, with source: or after:',
    };
  const text = textOf(error);
  if (!UNREACHABLE.test(text) && !/^(?:08|28|3D|53|57P)/.test(state ?? '')) return undefined;
  return { code, text: `the database cannot be used: ${text}. Check the address, and that the server runs` };
}

/** A refused connection to a name with several addresses is an AggregateError without a message. */
function textOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map((one) => textOf(one)).join('; ');
  return error instanceof Error ? error.message : String(error);
}
