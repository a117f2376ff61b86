import { Logger, type LogLevel } from '@nestjs/common';
import type { LogLine } from './log.js';

/**
 * Whether a line of this level may be logged at all. A line that no logger takes is not made. Nest 11 answers `isLevelEnabled` with false
 * at every level, 'fatal' too, unless levels were set. With `logger: false` there is no instance, in Nest 11 and 12.
 */
export function isHeard(level: LogLevel): boolean {
  if (Logger.isLevelEnabled(level)) return true;
  return !Logger.isLevelEnabled('fatal') && Logger['staticInstanceRef'] !== undefined;
}

let told = false;

/** Gives each line to the application's logger. A logger that throws loses the line, and not the claim or the run. */
export class InboxLogger extends Logger {
  constructor() {
    super('WebhookInbox');
  }

  override log(line: LogLine): void {
    this.guard(() => super.log(line));
  }

  override warn(line: LogLine): void {
    this.guard(() => super.warn(line));
  }

  override error(line: LogLine): void {
    this.guard(() => super.error(line));
  }

  override debug(line: LogLine): void {
    this.guard(() => super.debug(line));
  }

  private guard(tell: () => void): void {
    try {
      tell();
    } catch (error) {
      if (told) return;
      told = true;
      process.emitWarning(`the application's logger threw: ${String(error)}`, 'WebhookInboxWarning');
    }
  }
}
