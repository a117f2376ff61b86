import { Logger } from '@nestjs/common';

let told = false;

/** Hands each line to the application's logger. One that throws costs the line, and not the claim or the run that it tells of. */
export class InboxLogger extends Logger {
  constructor() {
    super('WebhookInbox');
  }

  override log(line: string): void {
    this.guarded(() => super.log(line));
  }

  override warn(line: string): void {
    this.guarded(() => super.warn(line));
  }

  override error(line: string): void {
    this.guarded(() => super.error(line));
  }

  override debug(line: string): void {
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
