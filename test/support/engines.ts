import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../examples/support/free.port.js';

const START_MS = 60_000;
const STOP_MS = 10_000;

/** How a server is started, and when it serves. */
interface Kind {
  /** The program, or the places where it may be. */
  readonly program: string;
  /** Debian's package. */
  readonly debian: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What a client says first, if it does. */
  readonly greeting?: string | Buffer;
  /** Whether the server's first words say that it serves. */
  readonly serves: (answer: Buffer) => boolean;
}

/** A real server of an engine on a free loopback port, with its data in a temporary folder. */
export class Engine {
  private child?: ChildProcess;
  private ended: Promise<unknown> = Promise.resolve();

  /** @param url for clients */
  constructor(
    readonly url: string,
    private readonly port: number,
    private readonly folder: string,
    private readonly kind: Kind,
    private readonly release: () => Promise<void> = async () => undefined,
  ) {}

  /** Of its process, which leads a group of its own. */
  get pid(): number {
    return this.child!.pid!;
  }

  /**
   * Starts it, or starts it again on the same port with the same data. Resolves when it serves.
   * @throws Error with the remedy where it is missing, or the end of its log where it ends
   */
  async start(): Promise<void> {
    const { program, debian, args, env } = this.kind;
    const logFile = join(this.folder, 'log');
    const log = openSync(logFile, 'a');
    // A group of its own: RabbitMQ's program is a script that starts the server.
    const child = spawn(program, args, {
      cwd: this.folder,
      env: { ...process.env, ...env },
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    this.child = child;
    const failed = new Promise<NodeJS.ErrnoException>((resolve) => child.once('error', resolve));
    this.ended = endOf(child);
    for (const end = performance.now() + START_MS; !(await this.isServing()); await sleep(50)) {
      if (child.pid === undefined && (await failed).code === 'ENOENT')
        throw new Error(`${program} is missing; on Debian: apt-get install ${debian}`);
      if (child.exitCode !== null || performance.now() > end) {
        await this.kill();
        throw new Error(`${program} did not start: ${readFileSync(logFile, 'utf8').slice(-2_000)}`);
      }
    }
  }

  /** Ends it at once, as SIGKILL does. Its data stays. */
  async kill(): Promise<void> {
    this.signal('SIGKILL');
    await this.ended;
  }

  /** Freezes it: its connections stay open, and it says nothing. */
  freeze(): void {
    this.signal('SIGSTOP');
  }

  goOn(): void {
    this.signal('SIGCONT');
  }

  /** Ends it, and removes its data. */
  async stop(): Promise<void> {
    this.signal('SIGTERM');
    this.goOn();
    const late = setTimeout(() => this.signal('SIGKILL'), STOP_MS);
    await this.ended;
    clearTimeout(late);
    // Of a group whose leader has ended, some may be left.
    this.signal('SIGKILL');
    await this.release();
    await rm(this.folder, { recursive: true, force: true, maxRetries: 10 });
  }

  private signal(name: NodeJS.Signals): void {
    const { pid } = this.child ?? {};
    if (pid === undefined) return;
    try {
      process.kill(-pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  private async isServing(): Promise<boolean> {
    const socket = connect(this.port, '127.0.0.1');
    socket.setTimeout(2_000, () => socket.destroy());
    try {
      await once(socket, 'connect');
      if (this.kind.greeting !== undefined) socket.write(this.kind.greeting);
      const [answer] = (await once(socket, 'data')) as [Buffer];
      return this.kind.serves(answer);
    } catch {
      return false;
    } finally {
      socket.destroy();
    }
  }
}

/** Its exit, or the failure of its start. */
function endOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve) => child.once('exit', resolve).once('error', resolve));
}

const folderOf = (name: string) => mkdtempSync(join(tmpdir(), `webhook-${name}-`));

/** Redis that keeps what it has confirmed: each write is on the disk before its answer, and nothing is evicted. */
export async function startRedis(): Promise<Engine> {
  const [port, folder] = [await freePort(), folderOf('redis')];
  const settings = {
    port: String(port),
    bind: '127.0.0.1',
    dir: folder,
    appendonly: 'yes',
    appendfsync: 'always',
    save: '',
    'maxmemory-policy': 'noeviction',
  };
  return started(
    new Engine(`redis://127.0.0.1:${port}`, port, folder, {
      program: 'redis-server',
      debian: 'redis-server',
      args: Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value]),
      greeting: 'PING\r\n',
      serves: (answer) => answer.toString().startsWith('+PONG'),
    }),
  );
}

/** NATS with JetStream on files. */
export async function startNats(): Promise<Engine> {
  const [port, folder] = [await freePort(), folderOf('nats')];
  return started(
    new Engine(`nats://127.0.0.1:${port}`, port, folder, {
      program: 'nats-server',
      debian: 'nats-server',
      args: ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', folder],
      serves: (answer) => answer.toString().includes('"jetstream":true'),
    }),
  );
}

/** The server itself: the program in the path refuses other users than its own, and changes to that one as root. */
const RABBITMQ = '/usr/lib/rabbitmq/bin/rabbitmq-server';

/**
 * RabbitMQ: one node, with the name service of Erlang that it needs on a port of its own.
 * @param settings more lines of rabbitmq.conf
 * @param erl more arguments of Erlang, for settings that the file cannot have
 */
export async function startRabbitmq(settings: readonly string[] = [], erl = ''): Promise<Engine> {
  const [port, folder, epmd] = [await freePort(), folderOf('rabbitmq'), await startEpmd()];
  const config = join(folder, 'rabbitmq');
  writeFileSync(
    `${config}.conf`,
    [
      `listeners.tcp.1 = 127.0.0.1:${port}`,
      'disk_free_limit.absolute = 10MB',
      'log.console = true',
      ...settings,
      '',
    ].join('\n'),
  );
  writeFileSync(join(folder, 'plugins'), '[].\n');
  const env = {
    HOME: folder,
    ERL_EPMD_PORT: String(epmd.port),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: `webhook-${port}@localhost`,
    RABBITMQ_DIST_PORT: String(await freePort()),
    RABBITMQ_CONFIG_FILE: config,
    RABBITMQ_CONF_ENV_FILE: join(folder, 'none'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'plugins'),
    RABBITMQ_MNESIA_BASE: join(folder, 'data'),
    RABBITMQ_LOG_BASE: join(folder, 'logs'),
    RABBITMQ_LOGS: '-',
    // Its schedulers would wait for work in a loop, and the tests need the processor.
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: `+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none ${erl}`,
  };
  return started(
    new Engine(
      `amqp://127.0.0.1:${port}`,
      port,
      folder,
      {
        program: existsSync(RABBITMQ) ? RABBITMQ : 'rabbitmq-server',
        debian: 'rabbitmq-server',
        args: [],
        env,
        greeting: Buffer.from('AMQP\0\0\x09\x01', 'latin1'),
        // Connection.Start is a method frame on channel 0.
        serves: (answer) => answer[0] === 1,
      },
      epmd.stop,
    ),
  );
}

/** RabbitMQ would start one as a daemon, which outlives it. */
async function startEpmd(): Promise<{ readonly port: number; readonly stop: () => Promise<void> }> {
  const port = await freePort();
  const child = spawn('epmd', ['-port', String(port), '-address', '127.0.0.1'], { stdio: 'ignore' });
  const ended = endOf(child);
  return {
    port,
    stop: async () => {
      child.kill('SIGKILL');
      await ended;
    },
  };
}

async function started(engine: Engine): Promise<Engine> {
  try {
    await engine.start();
    return engine;
  } catch (error) {
    await engine.stop();
    throw error;
  }
}
