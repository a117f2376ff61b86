import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../../examples/support/free.port.js';

export interface Pooler {
  /** The database by way of the pooler. */
  through(databaseUrl: string): string;
  stop(): Promise<void>;
}

/**
 * pgbouncer in transaction mode in front of a server.
 * @throws Error saying what is missing
 */
export async function startPgbouncer(serverUrl: string): Promise<Pooler> {
  if (spawnSync('pgbouncer', ['--version']).error !== undefined)
    throw new Error('pgbouncer is missing; on Debian: apt-get install pgbouncer');
  const { hostname, port, username, password } = new URL(serverUrl);
  const own = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'webhook-pgbouncer-'));
  chmodSync(folder, 0o755);
  const users = join(folder, 'users.txt');
  writeFileSync(users, `"${username}" "${password}"\n`);
  const config = join(folder, 'pgbouncer.ini');
  writeFileSync(
    config,
    `[databases]
* = host=${hostname} port=${port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${own}
unix_socket_dir =
auth_type = plain
auth_file = ${users}
pool_mode = transaction
default_pool_size = 15
max_client_conn = 200
ignore_startup_parameters = extra_float_digits
`,
  );
  // It refuses to run as root.
  const asRoot = process.getuid?.() === 0 ? ['-u', 'postgres'] : [];
  const child = spawn('pgbouncer', ['-q', ...asRoot, config], { stdio: 'ignore' });
  const ended = once(child, 'exit');
  await listening(own, () => child.exitCode !== null);
  return {
    through: (databaseUrl) => {
      const url = new URL(databaseUrl);
      url.hostname = '127.0.0.1';
      url.port = String(own);
      return url.href;
    },
    stop: async () => {
      child.kill('SIGINT');
      const late = setTimeout(() => child.kill('SIGKILL'), 5_000);
      await ended;
      clearTimeout(late);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function listening(port: number, hasEnded: () => boolean): Promise<void> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    if (hasEnded()) throw new Error('pgbouncer ended at once');
    const open = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy();
        resolve(true);
      });
      socket.on('error', () => resolve(false));
    });
    if (open) return;
    await sleep(50);
  }
  throw new Error('pgbouncer does not listen');
}
