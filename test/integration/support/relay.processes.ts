import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

/** A relay in a process of its own. */
export interface RelayProcess {
  readonly pid: number;
  /** How it ended: a signal, or a status. */
  readonly ended: Promise<string>;
  /** Lets what runs end, and ends. */
  stop(): Promise<void>;
}

const PROGRAM = fileURLToPath(new URL('relay.process.ts', import.meta.url));

export async function relayProcess(
  databaseUrl: string,
  env: Record<string, string> = {},
): Promise<RelayProcess> {
  const child = fork(PROGRAM, {
    execArgv: ['--import', '@swc-node/register/esm-register'],
    env: { ...process.env, NODE_ENV: 'production', NODE_OPTIONS: '', DATABASE_URL: databaseUrl, ...env },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = endOf(child);
  const early = ended.then((how) => {
    throw new Error(`the relay process ended before it was ready: ${how}`);
  });
  early.catch(() => undefined);
  await Promise.race([once(child, 'message'), early]);
  return {
    pid: child.pid!,
    ended,
    stop: async () => {
      if (child.connected) child.send('stop');
      await ended;
    },
  };
}

async function endOf(child: ChildProcess): Promise<string> {
  const [status, signal] = (await once(child, 'exit')) as [number | null, string | null];
  return signal ?? String(status);
}
