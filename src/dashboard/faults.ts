import { sqlStateOf } from '../core/classify.js';
import { InputRefused, NotAnswered, WebhookInboxError } from '../core/errors.js';
import type { InboxLogger } from '../core/log/inbox.logger.js';
import { errorText, logLine } from '../core/log/log.js';

/** An answer other than 200. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Status and text for the page: never a stack, a statement or a table's name. */
export function faultOf(error: unknown, logger: InboxLogger): [number, string] {
  if (error instanceof Refused) return [error.status, error.message];
  if (error instanceof InputRefused) return [400, error.message];
  if (error instanceof NotAnswered) return [503, error.message];
  if (error instanceof WebhookInboxError) return [422, error.message];
  logger.error(logLine(`the dashboard failed: ${errorText(error)}`, {}));
  if (sqlStateOf(error) === '57014')
    return [503, 'the question took longer than 2 s and was stopped: ask for less, with source: or after:'];
  if (sqlStateOf(error) === '42P01') return [503, 'tables are missing: run the migrations'];
  return [500, 'the request failed; the application’s log has the reason'];
}
