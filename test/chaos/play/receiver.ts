import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { openSync, closeSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { createInterface } from 'node:readline';
import type { Ambush, FromReceiver, Memory } from '../receiver/main.js';
import type { Version } from './rolling.js';

const SEEN_MS = 1_500;

/** A receiver on a port of its own, started again whenever it has ended. */
export class ChaosReceiver {
  /** Of the process that is up; undefined while none is. */
  owner: string | undefined;
  readyAt = 0;
  private child: ChildProcess | undefined;
  private stopping = false;
  private onAmbushed: (() => void) | undefined;
  private asked: { tell(memory: Memory): void; fail(error: Error): void } | undefined;

  constructor(
    readonly name: string,
    readonly port: number,
    private program: string,
    private readonly logFile: string,
    private env: Readonly<Record<string, string>>,
  ) {}

  get origin(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** It has a lock of its own by now, and has looked at those of the others. */
  get isSeen(): boolean {
    return this.owner !== undefined && performance.now() - this.readyAt > SEEN_MS;
  }

  start(): void {
    if (this.stopping) return;
    const log = openSync(this.logFile, 'a');
    const child = spawn(process.execPath, [this.program], {
      env: {
        ...process.env,
        NODE_ENV: 'production',
        NODE_OPTIONS: '',
        // From Node 22 on: what is compiled once is not compiled again at each start.
        NODE_COMPILE_CACHE: join(dirname(this.logFile), 'compiled'),
        NO_COLOR: '1',
        ...this.env,
        NAME: this.name,
        PORT: String(this.port),
      },
      stdio: ['ignore', log, log, 'pipe', 'ipc'],
    });
    closeSync(log);
    this.child = child;
    createInterface(child.stdio[3] as Readable).on('line', (line) =>
      this.heard(JSON.parse(line) as FromReceiver),
    );
    child.on('exit', () => {
      this.owner = undefined;
      this.asked?.fail(new Error(`${this.name} ended by itself; see its log`));
      this.start();
    });
  }

  /** Resolves to true when the process stands still at the point; to false when it did not come by in time, and goes on. */
  async ambush(ambush: Ambush, ms: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined;
    const ambushed = await new Promise<boolean>((resolve) => {
      this.onAmbushed = () => resolve(true);
      timer = setTimeout(() => resolve(false), ms);
      this.child!.send(ambush, () => undefined);
    });
    clearTimeout(timer);
    this.onAmbushed = undefined;
    if (!ambushed) this.child!.send('go on', () => undefined);
    return ambushed;
  }

  /**
   * Of the process that is up.
   * @param collected after a collection, which stops the process for a moment
   */
  async memory(collected = true): Promise<Memory> {
    const told = new Promise<Memory>((tell, fail) => (this.asked = { tell, fail }));
    this.child!.send(collected ? 'memory after a collection' : 'memory', () => undefined);
    return told;
  }

  /** Stops it where it is; what it holds can be looked at. */
  freeze(): void {
    this.child!.kill('SIGSTOP');
  }

  async kill(): Promise<void> {
    const child = this.child!;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }

  /** After `freeze`. */
  goOn(): void {
    this.child!.kill('SIGCONT');
  }

  /** Has these events replayed, whatever becomes of it. */
  replay(events: readonly { readonly source: string; readonly eventId: string }[]): void {
    this.child!.send({ replay: events }, () => undefined);
  }

  /** Starts as that version when it has ended. */
  become({ program, env }: Version): void {
    this.program = program;
    this.env = { ...this.env, ...env };
  }

  /** Ends as a deploy ends it, and starts again as that version. Resolves to its exit code. */
  async restart(version: Version): Promise<number | null> {
    this.become(version);
    const ended = once(this.child!, 'exit') as Promise<[number | null]>;
    this.child!.kill('SIGTERM');
    return (await ended)[0];
  }

  async stop(): Promise<void> {
    this.stopping = true;
    const { child } = this;
    if (child === undefined || (child.exitCode ?? child.signalCode) !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), 20_000);
    await ended;
    clearTimeout(late);
  }

  private heard(message: FromReceiver): void {
    if (message.kind === 'ready') {
      this.owner = message.owner;
      this.readyAt = performance.now();
    } else if (message.kind === 'memory') this.asked?.tell(message);
    else this.onAmbushed?.();
  }
}
