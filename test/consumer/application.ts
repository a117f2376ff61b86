import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Cell } from './cells.js';

/** Only looks at sources, and takes most of the time of an installation. */
const LINTERS = /eslint|prettier|oxlint|^globals$|^@nestjs\/mau$/;

const MAIN = {
  express: (end: string) => `import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module${end}';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(process.env.PORT ?? 3000, '127.0.0.1');
}
void bootstrap();
`,
  fastify: (end: string) => `import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { AppModule } from './app.module${end}';

async function bootstrap() {
  const app = await NestFactory.create<NestFastifyApplication>(AppModule, new FastifyAdapter());
  app.enableShutdownHooks();
  await app.listen(process.env.PORT ?? 3000, '127.0.0.1');
}
void bootstrap();
`,
};

/** The application's own test, for its own jest or vitest: whose globals are the same. */
const spec = ({ adapter }: Cell, end: string) => `import { createHmac } from 'node:crypto';
import { Test } from '@nestjs/testing';
${adapter === 'fastify' ? "import { FastifyAdapter } from '@nestjs/platform-fastify';" : ''}
import { DataSource } from 'typeorm';
import { stripe } from 'nestjs-webhook-inbox';
import { deliver, runDue } from 'nestjs-webhook-inbox/testing';
import { AppModule } from './app.module${end}';

// Its type has a name in this application's declarations.
export const sources = { stripe: stripe({ secrets: ['whsec_of_a_test_that_is_long_enough'] }) };

const body = JSON.stringify({ id: 'evt_test', type: 'invoice.paid', created: Math.floor(Date.now() / 1000),
  data: { object: { id: 'in_test', customer_email: 'a@example.com' } } });

async function send(url: string) {
  const time = Math.floor(Date.now() / 1000);
  const v1 = createHmac('sha256', process.env.STRIPE_WEBHOOK_SECRET!).update(time + '.' + body).digest('hex');
  const headers = { 'content-type': 'application/json', 'stripe-signature': 't=' + time + ',v1=' + v1 };
  return (await fetch(url + '/webhooks/stripe', { method: 'POST', headers, body })).json();
}

describe('webhooks', () => {
  it('are handled once', async () => {
    const testing = await Test.createTestingModule({ imports: [AppModule] }).compile();
    const app = testing.createNestApplication(${adapter === 'fastify' ? 'new FastifyAdapter()' : ''});
    await app.listen(0, '127.0.0.1');
    try {
      const url = await app.getUrl();
      expect(await send(url)).toEqual({ status: 'ok' });
      expect(await send(url)).toEqual({ status: 'duplicate' });
      const given = { id: 'evt_given', type: 'invoice.paid', payload: { data: { object: { id: 'in_given', customer_email: 'a@b.c' } } } };
      expect(await deliver(app, 'stripe', given)).toEqual({ kind: 'ok' });
      await runDue(app);
      const invoices = await app.get(DataSource).query("SELECT id FROM invoice WHERE id LIKE 'in_%n' OR id LIKE 'in_%t' ORDER BY id");
      expect(invoices).toEqual([{ id: 'in_given' }, { id: 'in_test' }]);
      const rows = await app.get(DataSource).query("SELECT state FROM webhook_outbox WHERE event_id = 'evt_test' AND name = 'Billing.paid'");
      expect(rows).toEqual([{ state: 'done' }]);
    } finally {
      await app.close();
    }
  }, 60_000);
});
`;

/** The file that the TypeORM CLI loads, as the README has it. */
const ORMCONFIG = `import { DataSource } from 'typeorm';
import { webhookInboxMigrations } from 'nestjs-webhook-inbox/migrations';

export default new DataSource({
  type: 'postgres',
  url: process.env.DATABASE_URL!,
  migrations: webhookInboxMigrations(),
});
`;

interface Manifest {
  readonly dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
}

/** An application as Nest's own CLI makes it, with the README's example in it. */
export class Application {
  private readonly folder: string;
  private readonly bin: string;

  constructor(
    private readonly cell: Cell,
    root: string,
    private readonly tarball: string,
    node: string,
  ) {
    this.folder = join(root, 'app');
    this.bin = node;
  }

  get isEsm(): boolean {
    return this.cell.nest === '12';
  }

  make(): void {
    const { nest } = this.cell;
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.folder, { recursive: true });
    const type = this.isEsm ? ['--type', 'esm'] : [];
    const make = [
      'new',
      'app',
      '--directory',
      '.',
      '--package-manager',
      'npm',
      '--skip-git',
      '--skip-install',
    ];
    this.run('npx', ['--yes', '-p', `@nestjs/cli@${nest}`, 'nest', ...make, ...type]);
    this.write();
    this.run('npm', ['install', '--no-audit', '--no-fund', '--loglevel', 'error']);
  }

  /** The README's first block is the module: what it says to do is done, and nothing else. */
  private write(): void {
    const end = this.isEsm ? '.js' : '';
    const readme = readFileSync('README.md', 'utf8');
    const [, example] = /```ts\n([\s\S]*?)```/.exec(readme)!;
    this.file('src/app.module.ts', example!);
    this.file('src/main.ts', MAIN[this.cell.adapter](end));
    this.file('src/webhooks.spec.ts', spec(this.cell, end));
    this.file('ormconfig.ts', ORMCONFIG);
    for (const name of ['app.controller', 'app.controller.spec', 'app.service', 'app.service.spec'])
      rmSync(join(this.folder, `src/${name}.ts`), { force: true });
    const manifest = JSON.parse(readFileSync(join(this.folder, 'package.json'), 'utf8')) as Manifest;
    Object.assign(manifest.dependencies, this.dependencies());
    manifest.devDependencies = Object.fromEntries(
      Object.entries({ ...manifest.devDependencies, 'ts-node': '^10.9.2' }).filter(
        ([name]) => !LINTERS.test(name),
      ),
    );
    this.file('package.json', JSON.stringify(manifest, undefined, 2));
  }

  private dependencies(): Record<string, string> {
    const { nest, adapter, typeorm } = this.cell;
    return {
      'nestjs-webhook-inbox': `file:${this.tarball}`,
      '@nestjs/schedule': nest === '11' ? '^6.0.0' : '^12.0.0',
      '@nestjs/typeorm': `^${nest}.0.0`,
      typeorm: typeorm === '1' ? '^1.0.0' : '^0.3.20',
      pg: '^8.13.0',
      ...(adapter === 'fastify' ? { '@nestjs/platform-fastify': `^${nest}.0.0` } : {}),
    };
  }

  build(): void {
    this.run('npm', ['run', 'build']);
  }

  test(env: NodeJS.ProcessEnv): void {
    this.run('npm', ['test'], env);
  }

  /** By the command of TypeORM's documentation. */
  migrate(env: NodeJS.ProcessEnv, command: 'run' | 'show' | 'revert'): string {
    const cli = `typeorm-ts-node-${this.isEsm ? 'esm' : 'commonjs'}`;
    return this.run('npx', [cli, `migration:${command}`, '-d', 'ormconfig.ts'], env);
  }

  get main(): string {
    return join(this.folder, this.isEsm ? 'dist/src/main.js' : 'dist/main.js');
  }

  private file(name: string, text: string): void {
    writeFileSync(join(this.folder, name), text);
  }

  private run(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): string {
    const { status, stdout, stderr } = spawnSync(command, args, {
      cwd: this.folder,
      encoding: 'utf8',
      env: { ...process.env, NODE_OPTIONS: '', PATH: `${this.bin}:${process.env.PATH}`, CI: '1', ...env },
    });
    if (status === 0) return stdout;
    throw new Error(
      `${command} ${args.join(' ')} ended with ${status}:\n${stdout.slice(-3_000)}\n${stderr.slice(-3_000)}`,
    );
  }
}
