import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from '../../chaos/support/build.js';

/** What a command has written, and how it has ended. */
export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly error: string;
}

export interface Running {
  readonly pid: number;
  /** What it has written so far. */
  readonly out: () => string;
  readonly error: () => string;
  interrupt(): void;
  readonly ended: Promise<Ran>;
}

/** The command line as processes, from the sources as plain JavaScript. */
export class CommandLine {
  /** Commands that were started, each with the database that it was given. */
  readonly started = new Set<string>();

  private constructor(
    private readonly bin: string,
    /** The application's module as `--app` takes it. */
    readonly app: string,
    readonly remove: () => Promise<void>,
  ) {}

  static async build(): Promise<CommandLine> {
    const built = await build();
    const bin = join(built.path('src/cli/index.ts'), '..', 'bin.mjs');
    await writeFile(bin, `import { main } from './index.js';\nawait main();\n`);
    const app = `${built.path('test/support/command-line/app.module.ts')}#AppModule`;
    return new CommandLine(bin, app, () => built.remove());
  }

  start(args: readonly string[], env: Readonly<Record<string, string>> = {}): Running {
    const { DATABASE_URL: _url, ...rest } = process.env;
    this.started.add(`${args[0]} ${env.DATABASE_URL}`);
    const child = spawn(process.execPath, [this.bin, ...args], {
      env: { ...rest, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const written = { out: '', error: '' };
    child.stdout.on('data', (text: Buffer) => (written.out += String(text)));
    child.stderr.on('data', (text: Buffer) => (written.error += String(text)));
    const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, ...written }));
    return {
      pid: child.pid!,
      out: () => written.out,
      error: () => written.error,
      interrupt: () => child.kill('SIGINT'),
      ended,
    };
  }

  run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> {
    return this.start(args, env).ended;
  }
}
