import { Logger, type LogLevel } from '@nestjs/common';
import type { LogLine } from './log.js';

/**
 * Whether a line of this level may reach somebody: a line that nobody gets is not made. Nest 11 answers `isLevelEnabled` with false
 * at every level, 'fatal' too, unless levels were set; `logger: false` leaves no instance, there and in Nest 12.
 */
export function isHeard(level: LogLevel): boolean {
  if (Logger.isLevelEnabled(level)) return true;
  return !Logger.isLevelEnabled('fatal') && Logger['staticInstanceRef'] !== undefined;
}

let told = false;

/** Hands each line to the application's logger. One that throws costs the line, and not the claim or the run that it tells of. */
export class InboxLogger extends Logger {
  constructor() {
    super('WebhookInbox');
  }

  override log(line: LogLine): void {
    this.guarded(() => super.log(line));
  }

  override warn(line: LogLine): void {
    this.guarded(() => super.warn(line));
  }

  override error(line: LogLine): void {
    this.guarded(() => super.error(line));
  }

  override debug(line: LogLine): void {
    this.guarded(() => super.debug(line));
  }

  private guarded(tell: () => void): void {
    try {
      tell();
    } catch (error) {
      if (told) return;
      told = true;
      process.emitWarning(`the application's logger threw: ${String(error)}`, 'WebhookInboxWarning');
    }
  }
}
