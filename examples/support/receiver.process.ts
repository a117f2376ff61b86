import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../receiver/main.ts', import.meta.url));
const START_MS = 60_000;
const STOP_MS = 20_000;

/** The example receiver as a process of its own, as it is in production: its log goes to a file. */
export class ReceiverProcess {
  private child: ChildProcess | undefined;

  constructor(private readonly logFile: string) {}

  /** Resolves when it serves requests. */
  async start(port: number, environment: Readonly<Record<string, string>>): Promise<void> {
    const log = await open(this.logFile, 'a');
    this.child = spawn(process.execPath, ['--import', '@swc-node/register/esm-register', MAIN], {
      env: { ...process.env, PORT: String(port), ...environment, NO_COLOR: '1' },
      stdio: ['ignore', log.fd, log.fd],
    });
    await log.close();
    await Promise.race([this.serving(`http://127.0.0.1:${port}/`), this.failed()]);
  }

  /** Rejects when the process ends by itself. */
  async failed(): Promise<never> {
    if (this.isRunning()) await once(this.child!, 'exit');
    return this.fail('The receiver has ended');
  }

  async stop(): Promise<void> {
    if (!this.isRunning()) return;
    const exited = once(this.child!, 'exit');
    this.child!.kill('SIGTERM');
    const late = setTimeout(() => this.child!.kill('SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(late);
  }

  private async fail(what: string): Promise<never> {
    const log = await readFile(this.logFile, 'utf8');
    throw new Error(`${what}. The end of its log, ${this.logFile}:\n${log.slice(-2_000)}`);
  }

  private isRunning(): boolean {
    return this.child !== undefined && (this.child.exitCode ?? this.child.signalCode) === null;
  }

  private async serving(url: string): Promise<void> {
    const end = performance.now() + START_MS;
    while (this.isRunning()) {
      const answer = await fetch(url).catch(() => undefined);
      if (answer !== undefined) return;
      if (performance.now() > end) await this.fail(`The receiver did not answer within ${START_MS} ms`);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }
}
