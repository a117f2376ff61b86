import { Argument } from 'commander';
import type { PauseKind } from '../../storage/pause.store.js';
import { deciderOf, type DeedOptions, type Definition, type Task } from '../command.js';
import { EXIT, type Exit } from '../terminal/exit.js';

const KINDS = ['source', 'handler', 'effect'];
const named = (kinds = KINDS): Argument[] => [
  new Argument('<kind>', 'of which kind').choices(kinds),
  new Argument('<name>', "a source, 'source/handler', an effect, or a destination of effects"),
];

export const pause: Definition<object> = {
  usage: 'pause',
  about:
    'Stops a source, a handler or an effect on every instance, within a second. Events are still received and wait.',
  needs: 'tables',
  writes: true,
  args: named(),
  run: (task, options, ...args) => turn('pause', task, options, args),
};

export const resume: Definition<object> = {
  usage: 'resume',
  about: 'Ends a pause, or resumes a destination that has failed too often.',
  needs: 'tables',
  writes: true,
  args: named([...KINDS, 'destination']),
  run: (task, options, ...args) => turn('resume', task, options, args),
};

async function turn(
  act: 'pause' | 'resume',
  { session, out }: Task,
  options: DeedOptions,
  args: readonly unknown[],
): Promise<Exit | undefined> {
  const [kind, name] = args as [PauseKind | 'destination', string];
  const { operator, inspector } = session;
  if (options.dryRun === true && act === 'pause') await operator.checkPausable(kind as PauseKind, name);
  const isPaused =
    kind === 'destination'
      ? (await inspector.destinations()).some((one) => one.name === name && one.failures > 0)
      : (await operator.paused()).some((one) => one.kind === kind && one.name === name);
  const decide = () =>
    act === 'pause' && kind !== 'destination'
      ? operator.pause(kind, name, deciderOf(options))
      : operator.resume(kind, name, deciderOf(options));
  const changed = options.dryRun === true ? isPaused !== (act === 'pause') : await decide();
  const would = options.dryRun === true ? 'would be' : 'is';
  out.answer({ ...(options.dryRun === true && { dryRun: true }), kind, name, changed }, () =>
    out.line(
      changed
        ? `${kind} '${name}' ${would} ${act}d.`
        : `Nothing changed: ${kind} '${name}' was ${act === 'pause' ? 'paused already' : 'not paused'}.`,
    ),
  );
  return changed ? undefined : EXIT.nothing;
}
