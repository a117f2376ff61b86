import { PermanentError } from '../core/errors.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { errorText, logLine } from '../core/log/log.js';
import { Outage } from '../core/log/outage.js';

/** Failures of an engine that a transport gets over itself, in the log: the first one, and few of those that follow. */
export class Trouble {
  private readonly logger = new InboxLogger();
  private readonly outage = new Outage();

  constructor(private readonly transport: string) {}

  readonly tell = (error: unknown): void => {
    if (this.outage.recordFailure())
      this.logger.warn(
        logLine(`tried again after an error: ${errorText(error)}`, {
          transport: this.transport,
        }),
      );
  };

  over(): void {
    const outage = this.outage.recordSuccess();
    if (outage !== undefined)
      this.logger.log(logLine('works again', { transport: this.transport, ...outage }));
  }
}

/**
 * An error of an engine's client, for the relay. Clients have codes and statuses of their own, which say nothing about the effect. The
 * relay would take a 404 of the engine for the effect's own, and try no more.
 */
export function asError(thrown: unknown): Error {
  return thrown instanceof PermanentError ? thrown : new Error(errorText(thrown), { cause: thrown });
}

export function rethrow(thrown: unknown): never {
  throw asError(thrown);
}
