import { deciderOf, type Definition } from '../command.js';
import { EXIT } from '../terminal/exit.js';
import { eventNamed, namingOptions } from './events.js';

const OWED = new Set(['pending', 'parked', 'dead', 'handed']);

export const erase: Definition<{ readonly source?: string; readonly tenant?: string }> = {
  usage: 'erase <event>',
  about:
    "Removes an event's content for good, and cancels its pending work. A redelivery is still a duplicate.",
  needs: 'tables',
  writes: true,
  options: namingOptions(),
  run: async ({ session, out }, options, ...args) => {
    const [id] = args as unknown[] as [string];
    const event = await eventNamed(session, id, options);
    if (options.dryRun === true) {
      const { rows } = (await session.inspector.event(event.id))!;
      const cancelled = rows.filter(({ state }) => OWED.has(state)).map(({ name }) => name);
      out.answer({ dryRun: true, event: event.id, cancelled }, () =>
        out.line(
          `The content of ${event.eventId} would be removed. Cancelled: ${cancelled.join(', ') || 'nothing'}.`,
        ),
      );
      return undefined;
    }
    const report = await session.operator.erase(event, deciderOf(options));
    const names = (work: readonly { readonly name: string }[]) => work.map(({ name }) => name).join(', ');
    out.answer({ event: event.id, ...report }, () => {
      out.line(
        report.outcome === 'erased' ? `${event.eventId} is erased.` : `Nothing changed: ${report.outcome}.`,
      );
      if (report.cancelled.length > 0) out.line(`Cancelled: ${names(report.cancelled)}.`);
      if (report.possiblySent.length > 0)
        out.line(`Other services may have the content: ${names(report.possiblySent)} had begun.`);
      if (report.sent.length > 0) out.line(`Other services have the content: ${names(report.sent)}.`);
    });
    return report.outcome === 'erased' ? undefined : EXIT.nothing;
  },
};
