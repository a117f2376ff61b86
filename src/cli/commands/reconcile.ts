import { deciderOf, type Definition } from '../command.js';
import { EXIT } from '../terminal/exit.js';

export const reconcile: Definition<object> = {
  usage: 'reconcile',
  about:
    'Adds runs that a rolling deploy has missed, and finds missing business records. One instance at a time runs it.',
  needs: { application: "the application's handlers and their business records" },
  writes: true,
  run: async ({ session, out, signal }, { dryRun, ...deed }) => {
    const reconciler = session.reconciler;
    const report =
      dryRun === true
        ? await reconciler.preview(signal)
        : await reconciler.reconcile({ ...deciderOf(deed), signal });
    const { ran, events, added, missing, records } = report;
    const isNothing = !ran && events === 0;
    out.answer({ ...(dryRun === true && { dryRun }), ...report, interrupted: signal.aborted }, () => {
      if (isNothing && !signal.aborted)
        return out.line('Nothing was done: another instance reconciles right now.');
      out.table(
        [
          'EVENTS',
          dryRun === true ? 'WOULD ADD' : 'ADDED',
          'SHORT',
          'RECORDS',
          'MISSING',
          'RUN AGAIN',
          'UNCHECKED',
        ],
        [[events, added, missing, records.checked, records.missing, records.reprocessed, records.unchecked]],
      );
      if (!ran) out.line('This is a part: the pass was cut short. Run the command again.');
    });
    if (signal.aborted) return EXIT.interrupted;
    if (isNothing) return EXIT.nothing;
    return ran ? undefined : EXIT.partly;
  },
};
