import { InvalidArgumentError, Option, type Argument, type Command } from 'commander';
import type { Decider } from '../core/decider.js';
import { toMs } from '../core/options/duration.js';
import { parseFilter } from '../operator/event.filter.js';
import { fromReplica, type ReplicaUse } from '../storage/postgres/replica.js';
import type { Place, Session } from './session/session.js';
import { Ended, EXIT, UsageError, type Exit } from './terminal/exit.js';
import type { Interrupt } from './terminal/interrupt.js';
import { Output } from './terminal/output.js';
import type { Streams } from './terminal/streams.js';
import { span } from './terminal/table.js';

/** Options that every command takes. */
export interface CommonOptions extends Place {
  readonly json?: boolean;
}
/** Options of every command that writes. */
export interface DeedOptions {
  readonly by?: string;
  readonly reason?: string;
  readonly dryRun?: boolean;
}

/** The parts that a command works with. */
export interface Task {
  readonly session: Session;
  readonly out: Output;
  /** Aborted by Ctrl-C: the command stops between two steps. */
  readonly signal: AbortSignal;
}

/** A command of the command line. */
export interface Definition<O> {
  /** Name and arguments, as commander reads them: 'show <event>'. */
  readonly usage: string;
  readonly about: string;
  /** `application`: handlers, windows or secrets, so that `--app` is required; the text says what for. */
  readonly needs: 'tables' | { readonly application: string };
  /** Adds `--by`, `--reason` and `--dry-run`. */
  readonly writes?: boolean;
  /** Arguments that `usage` does not name. */
  readonly args?: readonly Argument[];
  readonly options?: readonly Option[];
  readonly alias?: string;
  /** Decides nothing: a replica may answer, and a note says how old it is. */
  readonly lists?: boolean;
  /** Opens the application with its HTTP server, which does not listen. The command examines its pipeline. */
  readonly http?: boolean;
  /** @returns the exit code; nothing for 0 */
  run(task: Task, options: O & CommonOptions & DeedOptions, ...args: never[]): Promise<Exit | undefined>;
}

/** A command without a database. */
export interface PlainDefinition<O> {
  readonly usage: string;
  readonly about: string;
  readonly needs: 'nothing';
  readonly options?: readonly Option[];
  run(out: Output, options: O): Promise<Exit | undefined>;
}

/** The process around a command. */
export interface Surroundings {
  readonly streams: Streams;
  readonly interrupt: Interrupt;
  /** Loads the package's own entry, so that an application of the other module format gets this copy of the package. */
  readonly load: () => Promise<unknown>;
  /** Takes the exit code. */
  ended(code: Exit | undefined): void;
}

export function define<O>(
  program: Command,
  around: Surroundings,
  definition: Definition<O> | PlainDefinition<O>,
): void {
  if (definition.needs === 'nothing') definePlain(program, around, definition);
  else defineOpened(program, around, definition);
}

function definePlain<O>(program: Command, around: Surroundings, definition: PlainDefinition<O>): void {
  const command = program.command(definition.usage).description(definition.about);
  for (const one of definition.options ?? []) command.addOption(one);
  command.action(async () => {
    const out = new Output(around.streams, false);
    around.ended(await definition.run(out, command.opts<O & object>()));
  });
}

function defineOpened<O>(program: Command, around: Surroundings, definition: Definition<O>): void {
  const { usage, about, needs, writes = false, args = [], options = [], alias, lists } = definition;
  const command = program.command(usage).description(about);
  if (alias !== undefined) command.alias(alias);
  for (const one of args) command.addArgument(one);
  for (const one of [...options, ...(writes ? deedOptions() : []), ...placeOptions()]) command.addOption(one);
  command.action(async () => {
    const given = command.opts<O & CommonOptions & DeedOptions>();
    if (needs !== 'tables' && given.app === undefined) throw needsApp(command.name(), needs.application);
    if (writes) checkDeed(given);
    const run = (task: Task) => definition.run(task, given, ...(command.processedArgs as never[]));
    const work = lists === true ? (task: Task) => listed(task, () => run(task)) : run;
    around.ended(await within(around, { ...given, http: definition.http === true }, work));
  });
}

async function listed({ out }: Task, run: () => Promise<Exit | undefined>): Promise<Exit | undefined> {
  const use: ReplicaUse = {};
  try {
    return await fromReplica(run, use);
  } catch (error) {
    // An event that came a moment ago may not be there yet.
    if (use.behindMs === undefined || !(error instanceof Ended) || error.code !== EXIT.nothing) throw error;
    use.behindMs = undefined;
    return await run();
  } finally {
    if (use.behindMs !== undefined) out.note(`From a replica, at most ${span(use.behindMs)} behind.`);
  }
}

async function within(
  { streams, interrupt, load }: Surroundings,
  options: CommonOptions & { readonly http: boolean },
  work: (task: Task) => Promise<Exit | undefined>,
): Promise<Exit | undefined> {
  const { app, dataSource } = options;
  if (app === undefined && dataSource === undefined && !process.env.DATABASE_URL)
    throw new UsageError(
      'no database was given: expected --app dist/app.module.js#AppModule, -d with a DataSource file, or DATABASE_URL',
    );
  await load();
  // Nest and TypeORM are loaded here, and not for arguments that are wrong.
  const { openSession } = await import('./session/open.js');
  const session = await openSession(options);
  try {
    interrupt.workBegins();
    return await work({ session, out: new Output(streams, options.json === true), signal: interrupt.signal });
  } finally {
    await session.close();
  }
}

function placeOptions(): Option[] {
  return [
    new Option('--app <file#Class>', "the application's built root module: dist/app.module.js#AppModule"),
    new Option('-d, --data-source <file>', "a DataSource file, as TypeORM's CLI takes it").conflicts('app'),
    new Option('--schema <name>', "schema of the package's tables, with -d and DATABASE_URL").conflicts(
      'app',
    ),
    new Option('--json', 'one JSON document on standard output'),
    new Option('--verbose', "the application's log on standard error"),
  ];
}

function deedOptions(): Option[] {
  return [
    new Option('--by <name>', 'your name or address, for the audit').env('WEBHOOK_INBOX_BY'),
    new Option('--reason <text>', 'the reason, for the audit'),
    new Option('--dry-run', 'show what would happen, and change nothing'),
  ];
}

function needsApp(name: string, what: string): UsageError {
  return new UsageError(
    `${name} needs ${what}, which the tables do not hold: expected --app dist/app.module.js#AppModule, the built root module of the ` +
      `application. Its relay and its crons are not started`,
  );
}

/** Before anything is opened: a person who forgot it must not wait for a boot first. */
function checkDeed({ dryRun, by, reason }: DeedOptions): void {
  if (dryRun !== true) deciderOf({ by, reason });
}

/** @throws UsageError */
export function deciderOf({ by, reason }: DeedOptions): Decider {
  if (by === undefined || by.trim() === '')
    throw new UsageError('--by: expected your name or address for the audit, as in --by ann@example.com');
  if (reason === undefined || reason.trim() === '')
    throw new UsageError(`--reason: expected a reason for the audit, as in --reason "mail server was down"`);
  return { by, reason };
}

/** For commander's `argParser`. */
export function count(text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value > 0) return value;
  throw new InvalidArgumentError(`Expected a whole number above 0, received '${text}'.`);
}

export function duration(text: string): number {
  const ms = toMs(text);
  if (ms !== undefined && Number.isFinite(ms)) return ms;
  throw new InvalidArgumentError(`Expected a duration such as 30s, 15m or 2h, received '${text}'.`);
}

/** A time as filters write it: `2h` ago, a date, or a time with its zone. */
export function moment(text: string): Date {
  try {
    return parseFilter(`after:${text}`).after!;
  } catch {
    throw new InvalidArgumentError(
      `Expected a time such as 2h (ago), 2026-08-01 or 2026-08-01T09:00Z, received '${text}'.`,
    );
  }
}

/** For an option that may be given several times, or with commas. */
export function list(text: string, before: readonly string[] = []): string[] {
  return [...before, ...text.split(',').map((one) => one.trim())].filter((one) => one !== '');
}
