import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import type { Profiler } from 'node:inspector';
import { fileURLToPath } from 'node:url';
import { StepCounter, type AsyncSteps } from './async-steps.js';
import { Recorder } from './profile.js';

/** What runs in a process of its own, so that its CPU is its own and no two contenders share a heap. */
export interface Running<TReady> {
  readonly ready: TReady;
  /** One order; the answer is its result. */
  run(order: unknown): Promise<unknown>;
  stop(): Promise<void>;
}

/** A program as the main process sees it. */
export interface Program {
  readonly pid: number;
  readonly ready: Record<string, unknown>;
  run<T>(order?: unknown): Promise<T>;
  /** Records a CPU profile until what is returned is called. */
  profile(): Promise<() => Promise<Profiler.Profile>>;
  /** Counts asynchronous steps until what is returned is called. */
  countSteps(): Promise<() => Promise<AsyncSteps>>;
  stop(): Promise<void>;
}

interface Order {
  readonly order?: unknown;
  readonly act?: 'stop' | 'profile' | 'profiled' | 'count' | 'counted';
}
type Message =
  { readonly ready: Record<string, unknown> } | { readonly result: unknown } | { readonly failed: string };

/** In the program: starts by its settings, then answers orders one after the other. */
export async function serve<TSettings>(
  start: (settings: TSettings) => Promise<Running<Record<string, unknown>>>,
): Promise<void> {
  const running = await start(JSON.parse(process.env.BENCH_SETTINGS!) as TSettings);
  const recorder = new Recorder();
  const counter = new StepCounter();
  const act = async ({ order, act: asked }: Order): Promise<unknown> => {
    if (asked === 'stop') return running.stop().then(() => process.exit(0));
    if (asked === 'profile') return recorder.begin();
    if (asked === 'count') return counter.begin();
    if (asked === 'counted') return counter.end();
    return asked === 'profiled' ? recorder.end() : running.run(order);
  };
  process.on('message', (message: Order) => {
    const work = act(message);
    work.then(
      (result) => process.send!({ result }),
      (error: unknown) => process.send!({ failed: error instanceof Error ? error.stack : String(error) }),
    );
  });
  process.on('disconnect', () => process.exit(1));
  process.send!({ ready: running.ready });
}

export async function start(file: string, settings: object): Promise<Program> {
  const child = fork(fileURLToPath(new URL(`../${file}`, import.meta.url)), {
    execArgv: [...process.execArgv, '--max-old-space-size=2048'],
    env: { ...process.env, NODE_ENV: 'production', BENCH_SETTINGS: JSON.stringify(settings) },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const first = await answer(child, file);
  const ask = async <T>(order: Order): Promise<T> => {
    child.send(order);
    const message = await answer(child, file);
    return ('result' in message ? message.result : undefined) as T;
  };
  return {
    pid: child.pid!,
    ready: 'ready' in first ? first.ready : {},
    run: (order = {}) => ask({ order }),
    profile: async () => {
      await ask({ act: 'profile' });
      return () => ask({ act: 'profiled' });
    },
    countSteps: async () => {
      await ask({ act: 'count' });
      return () => ask({ act: 'counted' });
    },
    stop: async () => {
      const exit = once(child, 'exit');
      child.send({ act: 'stop' } satisfies Order);
      const late = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await exit;
      clearTimeout(late);
    },
  };
}

function answer(child: ChildProcess, file: string): Promise<Message> {
  return new Promise((resolve, reject) => {
    const onMessage = (message: Message) => {
      child.off('exit', onExit);
      if ('failed' in message) reject(new Error(`${file}: ${message.failed}`));
      else resolve(message);
    };
    const onExit = (code: number | null, signal: string | null) => {
      child.off('message', onMessage);
      reject(new Error(`${file} ended: ${String(code ?? signal)}`));
    };
    child.once('message', onMessage);
    child.once('exit', onExit);
  });
}
