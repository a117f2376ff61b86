import { Injectable } from '@nestjs/common';
import { ConfigurationError } from '../core/errors.js';
import { InboxLogger } from '../core/log/inbox.logger.js';
import { logLine } from '../core/log/log.js';

/** Names that compilers give to a class without a name. */
const ANONYMOUS = /^(|default|class|_class|anonymous)(_\d+)?$/;
/**
 * Short names that minifiers make, and suffixes that bundlers add to distinguish two classes of one name. Classes of Nest are written in
 * capitals.
 */
const SHORT = /^(.{1,2}|[a-z_$].{2,3})$|\$\d+$/;

/**
 * Warns about default names of handlers, which are derived from class names. A build may change those, and rows of one handler would then
 * run another's code.
 */
@Injectable()
export class ClassNames {
  private readonly logger = new InboxLogger();
  private readonly doubtful = new Set<string>();

  /** @throws ConfigurationError for a class without a name */
  check(className: string, at: string): void {
    if (ANONYMOUS.test(className)) {
      throw new ConfigurationError(
        `${at} is in a class without a name, and the name of its rows is derived from it: give the decorator a \`name\``,
      );
    }
    if (SHORT.test(className)) this.doubtful.add(className);
  }

  get doubts(): string[] {
    return [...this.doubtful];
  }

  warn(): void {
    if (this.doubtful.size === 0) return;
    const text =
      'names of classes look as if a bundler made them, and handler names are derived from them: the next build may give a ' +
      'pending row to another handler. Give each @OnWebhook and @UseWebhook a `name`, or keep class names in the bundle';
    this.logger.warn(logLine(text, { classes: this.doubts.join(', ') }));
  }
}
