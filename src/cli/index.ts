import { Command, CommanderError } from 'commander';
import { define, type Surroundings } from './command.js';
import { commands } from './commands/index.js';
import { endOf, EXIT, type Exit } from './terminal/exit.js';
import { Interrupt } from './terminal/interrupt.js';
import { ownStreams, type Streams } from './terminal/streams.js';

const HELP = `
Where the tables are:
  --app dist/app.module.js#AppModule   the application, with its relay and its crons at rest
  -d src/data-source.ts                a DataSource file, as TypeORM's CLI takes it
  DATABASE_URL                         without either

Exit codes:
  0 done  1 failed  2 wrong arguments  3 nothing found  4 the database cannot be used
  5 done in part, or doctor found a fault  130 interrupted`;

function programFor(around: Surroundings): Command {
  const { out, error } = around.streams;
  const program = new Command('webhook-inbox')
    .description('Looks at and acts on the webhooks of an application: the dashboard, on a terminal.')
    .addHelpText('after', HELP)
    .configureOutput({ writeOut: out, writeErr: error })
    .showHelpAfterError('Add --help for the arguments and options.')
    .exitOverride();
  for (const one of commands) define(program, around, one);
  return program;
}

/**
 * Runs one command and ends the process: a connection that the application has left open must not keep it.
 * @param load loads the package's own entry; the sources have none
 */
export async function main(load: Surroundings['load'] = () => Promise.resolve()): Promise<void> {
  const streams = ownStreams();
  process.exit(await ended(streams, load));
}

async function ended(streams: Streams, load: Surroundings['load']): Promise<Exit> {
  const interrupt = new Interrupt(streams);
  let code: Exit | undefined;
  try {
    await programFor({ streams, interrupt, load, ended: (given) => (code = given) }).parseAsync(process.argv);
    return code ?? EXIT.done;
  } catch (error) {
    // Commander has written its text.
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    const end = endOf(error);
    streams.error(`${end.text}\n`);
    return end.code;
  }
}
