import { Argument, Option } from 'commander';
import type { ParkedDecision } from '../../storage/desk/decision.store.js';
import { deciderOf, type Definition } from '../command.js';
import { EXIT } from '../terminal/exit.js';

export const park: Definition<{ readonly after?: string }> = {
  usage: 'park',
  alias: 'parked',
  about: 'Lists parked effects: each waits until a person decides whether it happened.',
  needs: 'tables',
  lists: true,
  options: [new Option('--after <cursor>', 'the next page, by the cursor of the last one')],
  run: async ({ session, out }, { after }) => {
    const page = await session.inspector.effects('state:parked', after);
    out.answer(page, () => {
      out.table(
        ['ROW', 'EFFECT', 'REASON', 'ATTEMPT', 'SOURCE', 'EVENT', 'ERROR'],
        page.effects.map((one) => [
          one.id,
          one.name,
          one.reason,
          one.attempt,
          one.source,
          one.eventId,
          one.error,
        ]),
      );
      if (page.next !== undefined) out.line(`There is more: --after ${page.next}`);
      if (page.effects.length > 0)
        out.line('Decide about each: webhook-inbox decide <row> done, retry or dead.');
    });
    return page.effects.length === 0 ? EXIT.nothing : undefined;
  },
};

const MEANING: Readonly<Record<ParkedDecision, string>> = {
  done: 'counts as done: it did happen',
  retry: 'runs again under its key: it may happen twice at a service that ignores the key',
  dead: 'is dead: it did not happen, and no retry runs it',
};

export const decide: Definition<object> = {
  usage: 'decide',
  about: 'Decides about a parked effect: done (it happened), retry (run it again) or dead (give it up).',
  needs: 'tables',
  writes: true,
  args: [
    new Argument('<row>', 'id of the row, as `park` lists it'),
    new Argument('<decision>', 'whether it happened').choices(['done', 'retry', 'dead']),
  ],
  run: async ({ session, out }, options, ...args) => {
    const [id, decision] = args as unknown[] as [string, ParkedDecision];
    const operator = session.operator;
    if (options.dryRun === true) {
      const { states } = await operator.progress([id]);
      const isParked = states.parked === 1;
      out.answer({ dryRun: true, id, decision, decided: isParked }, () =>
        out.line(
          isParked
            ? `It is parked. Then it ${MEANING[decision]}.`
            : 'It is not parked: nothing would change.',
        ),
      );
      return isParked ? undefined : EXIT.nothing;
    }
    const decided = await operator.decide(id, decision, deciderOf(options));
    const why = decided ? undefined : await operator.whyUnchanged(id);
    out.answer({ id, decision, decided, ...(why !== undefined && { why }) }, () =>
      out.line(decided ? `It ${MEANING[decision]}.` : `Nothing changed: ${why!}.`),
    );
    return decided ? undefined : EXIT.nothing;
  },
};

export const cancel: Definition<object> = {
  usage: 'cancel',
  about: 'Cancels an effect that has not begun. Its key stays taken.',
  needs: 'tables',
  writes: true,
  args: [new Argument('<row>', 'id of the row, as `show` lists it')],
  run: async ({ session, out }, options, ...args) => {
    const [id] = args as unknown[] as [string];
    const { operator } = session;
    if (options.dryRun === true) {
      const { states } = await operator.progress([id]);
      const isPending = states.pending === 1;
      out.answer({ dryRun: true, id, cancelled: isPending }, () =>
        out.line(
          isPending
            ? 'It is pending. If it is an effect that has not begun, it is cancelled.'
            : 'It is not pending: nothing would change.',
        ),
      );
      return isPending ? undefined : EXIT.nothing;
    }
    const cancelled = await operator.cancel(id, deciderOf(options));
    const why = cancelled ? undefined : await operator.whyUnchanged(id);
    out.answer({ id, cancelled, ...(why !== undefined && { why }) }, () =>
      out.line(cancelled ? 'It is cancelled.' : `Nothing changed: ${why!}.`),
    );
    return cancelled ? undefined : EXIT.nothing;
  },
};
