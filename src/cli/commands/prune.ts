import { deciderOf, type Definition } from '../command.js';
import { EXIT } from '../terminal/exit.js';

export const prune: Definition<object> = {
  usage: 'prune',
  about: 'Deletes old claims, bodies and effects by the windows of their source, as the nightly run does.',
  needs: { application: "the retention windows of the application's sources" },
  writes: true,
  run: async ({ session, out, signal }, { dryRun, ...deed }) => {
    const retention = session.retention;
    const progress = out.progress('rows');
    const report =
      dryRun === true
        ? await retention.preview(signal)
        : await retention.prune({ ...deciderOf(deed), signal, onProgress: (rows) => progress.at(rows) });
    progress.end();
    const { ran, ...counts } = report;
    out.answer({ ...(dryRun === true && { dryRun }), ...report, interrupted: signal.aborted }, () => {
      if (!ran) return out.line('Nothing was done: another instance prunes right now.');
      out.table(
        [dryRun === true ? 'WOULD GO' : 'GONE', 'ROWS'],
        Object.entries(counts).map(([name, rows]) => [name, rows]),
      );
      if (dryRun === true)
        out.line('Counted in batches of 500, one of each kind and source: 500 may mean more.');
    });
    if (signal.aborted) return EXIT.interrupted;
    return ran ? undefined : EXIT.nothing;
  },
};
