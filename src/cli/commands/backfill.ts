import { Option } from 'commander';
import { deciderOf, moment, type Definition } from '../command.js';
import { EXIT } from '../terminal/exit.js';

export const backfill: Definition<{ readonly since: Date }> = {
  usage: 'backfill <source>',
  about:
    "Claims events of the provider's own list that no webhook has brought. You can stop it and run it again.",
  needs: { application: "the method with @BackfillSource, and the source's handlers" },
  writes: true,
  options: [
    new Option('--since <time>', 'events since: 2h (ago), 2026-08-01, 2026-08-01T09:00Z')
      .argParser(moment)
      .makeOptionMandatory(),
  ],
  run: async ({ session, out, signal }, { since, dryRun, ...deed }, ...args) => {
    const [source] = args as unknown[] as [string];
    const backfills = session.backfills;
    const progress = out.progress('events');
    const onProgress = ({ seen, claimed }: { seen: number; claimed: number }) =>
      progress.at(seen, undefined, `${claimed} new`);
    const report =
      dryRun === true
        ? await backfills.preview(source, { since, signal, onProgress })
        : await backfills.run(source, { since, signal, onProgress, ...deciderOf(deed) });
    progress.end();
    out.answer({ ...(dryRun === true && { dryRun }), ...report, interrupted: signal.aborted }, () => {
      const { seen, claimed, known, tooOld, unusable } = report;
      out.table(
        ['SEEN', dryRun === true ? 'WOULD CLAIM' : 'CLAIMED', 'KNOWN', 'TOO OLD', 'UNUSABLE'],
        [[seen, claimed, known, tooOld, unusable]],
      );
      if (signal.aborted)
        out.line('Stopped between two events. Run it again: claimed events are duplicates.');
    });
    return signal.aborted ? EXIT.interrupted : undefined;
  },
};
