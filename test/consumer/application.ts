import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cell } from './cells.js';
import { AS_README_SAYS, migrationCommand, packagesFor } from './readme.js';
import { CACHE, run } from './tools.js';

/** The application's own test, for its own jest or vitest: their globals are the same. */
const spec = ({ adapter }: Cell, end: string) => `import { createHmac, randomUUID } from 'node:crypto';
import { Test } from '@nestjs/testing';
${adapter === 'fastify' ? "import { FastifyAdapter } from '@nestjs/platform-fastify';" : ''}
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { OnEffect, OnWebhook, stripe } from 'nestjs-webhook-inbox';
import type { HandlerContext, WebhookEvent } from 'nestjs-webhook-inbox';
import { advance, crashEverywhere, deliver, drain, expectEvent, failNext, fakeEffect, runDue, signWebhook } from 'nestjs-webhook-inbox/testing';
import { AppModule } from './app.module${end}';

// Its type has a name in this application's declarations.
export const sources = { stripe: stripe({ secrets: ['whsec_of_a_test_that_is_long_enough'] }) };

const id = randomUUID();
const body = JSON.stringify({ id: 'evt_' + id, type: 'invoice.paid', created: Math.floor(Date.now() / 1000),
  data: { object: { id: 'in_' + id, customer_email: 'a@example.com' } } });

async function send(url: string) {
  const time = Math.floor(Date.now() / 1000);
  const v1 = createHmac('sha256', process.env.STRIPE_WEBHOOK_SECRET!).update(time + '.' + body).digest('hex');
  const headers = { 'content-type': 'application/json', 'stripe-signature': 't=' + time + ',v1=' + v1 };
  return (await fetch(url + '/webhooks/stripe', { method: 'POST', headers, body })).json();
}

async function start(...providers: (new () => object)[]) {
  const testing = await Test.createTestingModule({ imports: [AppModule], providers }).compile();
  return testing.createNestApplication(${adapter === 'fastify' ? 'new FastifyAdapter()' : ''}).init();
}

@Injectable()
class Mails {
  @OnWebhook('stripe', 'invoice.paid', { name: 'mails' })
  paid({ eventId }: WebhookEvent<object>, { enqueue }: HandlerContext) {
    return enqueue('mail', { eventId });
  }

  @OnEffect('mail')
  send() {
    throw new Error('the real effect ran');
  }
}

/** Not repeatable: each run adds an invoice. */
@Injectable()
class Adds {
  @OnWebhook('stripe', 'invoice.paid', { name: 'adds' })
  paid(_event: WebhookEvent<object>, { manager }: HandlerContext) {
    return manager.query("INSERT INTO invoice VALUES ('added_' || random(), now())").then(() => undefined);
  }
}

const paid = (name: string) => ({ id: 'evt_' + name, type: 'invoice.paid', payload: { data: { object: { id: 'in_' + name } } } });
// What depends on the runner alone is tried once for each application.
const once = process.env.TS_NODE_TRANSPILE_ONLY === 'true' ? it.skip : it;

describe('the testing kit', () => {
  once('signs, delivers, fails, waits and fakes', async () => {
    const app = await start(Mails);
    try {
      const mail = fakeEffect(app, 'mail');
      await app.listen(0, '127.0.0.1');
      const { id: _id, type, payload } = paid('signed_' + id);
      const signed = signWebhook('stripe', { secret: process.env.STRIPE_WEBHOOK_SECRET!, id: 'evt_signed_' + id, type,
        body: { id: 'evt_signed_' + id, type, ...payload } });
      const { method, headers } = signed;
      const answer = await fetch((await app.getUrl()) + '/webhooks/stripe', { method, headers, body: new Uint8Array(signed.body) });
      expect(await answer.json()).toEqual({ status: 'ok' });
      await drain(app);
      failNext(app, 'stripe/Billing.paid', new Error('planted'));
      expect(await deliver.twice(app, 'stripe', paid('failed_' + id))).toEqual([{ kind: 'ok' }, { kind: 'duplicate' }]);
      await runDue(app);
      await advance(app, '1h');
      await drain(app);
      const { state, runs, effects } = await expectEvent(app, 'evt_failed_' + id);
      expect([state, runs.map(({ attempts }) => attempts).sort()]).toEqual(['processed', [1, 2]]);
      expect([...mail.byKey.keys()]).toContain(effects[0]!.idempotencyKey);
      const { order } = await deliver.shuffled(app, 'stripe', ['a', 'b', 'c'].map((name) => paid(name + id)), 7);
      await drain(app);
      for (const one of order) expect(await expectEvent(app, one)).toMatchObject({ state: 'processed' });
      expect(mail.byKey.size).toBe(5);
    } finally {
      await app.close();
    }
  }, 120_000);

  once('crashes it everywhere, and names the step of a fault', async () => {
    const crashing = (...providers: (new () => object)[]) =>
      crashEverywhere(() => start(...providers), (app, name) => deliver(app, 'stripe', paid(name)));
    expect((await crashing()).steps).toContain('a crash before commit 1');
    await expect(crashing(Adds)).rejects.toMatchObject({ faults: expect.arrayContaining([
      expect.objectContaining({ step: 'a replay', problems: expect.arrayContaining([expect.stringContaining('table public.invoice')]) }),
    ]) });
  }, 300_000);
});

describe('webhooks', () => {
  it('are handled once', async () => {
    const app = await start();
    await app.listen(0, '127.0.0.1');
    try {
      const url = await app.getUrl();
      expect(await send(url)).toEqual({ status: 'ok' });
      expect(await send(url)).toEqual({ status: 'duplicate' });
      const payload = { data: { object: { id: 'in_given_' + id, customer_email: 'a@b.c' } } };
      const given = { id: 'evt_given_' + id, type: 'invoice.paid', payload };
      expect(await deliver(app, 'stripe', given)).toEqual({ kind: 'ok' });
      await runDue(app);
      const query = (sql: string) => app.get(DataSource).query(sql);
      expect(await query("SELECT count(*)::int AS invoices FROM invoice WHERE id IN ('in_" + id + "', 'in_given_" + id + "')")).toEqual([{ invoices: 2 }]);
      const rows = await query("SELECT state FROM webhook_outbox WHERE name = 'stripe/Billing.paid' AND event_id IN ('evt_" + id + "', 'evt_given_" + id + "')");
      expect(rows).toEqual([{ state: 'done' }, { state: 'done' }]);
    } finally {
      await app.close();
    }
  }, 60_000);
});
`;

type Env = Readonly<Record<string, string>>;

/** An application as Nest's own CLI makes it, with the README followed in it. */
export class Application {
  private readonly folder: string;
  readonly isEsm: boolean;

  constructor(
    private readonly cell: Cell,
    private readonly tarball: string,
    private readonly bin: string,
  ) {
    const { nest, adapter, typeorm } = cell;
    this.isEsm = nest === '12';
    this.folder = join(CACHE, 'applications', `nest${nest}-${adapter}-typeorm${typeorm}`);
  }

  /** Made, installed and built once for the cells that differ in the versions of Node and PostgreSQL alone. */
  make(): void {
    if (this.isMarked('made')) return;
    this.begin();
    for (const mark of ['made', 'checked']) rmSync(join(this.folder, mark), { force: true });
    this.install();
    this.add();
    follow(this.folder, this.cell);
    this.run('npm', ['run', 'build']);
    this.mark('made');
  }

  /** Of the cells of one application the first has the compiler check what TypeORM's CLI and the tests load. */
  get env(): Env {
    return this.isChecked ? { TS_NODE_TRANSPILE_ONLY: 'true' } : {};
  }

  /** Whether another cell of it went through. */
  get isChecked(): boolean {
    return this.isMarked('checked');
  }

  mark(name: string): void {
    writeFileSync(join(this.folder, name), this.tarball);
  }

  private isMarked(name: string): boolean {
    const file = join(this.folder, name);
    return existsSync(file) && readFileSync(file, 'utf8') === this.tarball;
  }

  /** From what `nest new` makes, or from another application of that version of Nest, whose packages are mostly the same. */
  private begin(): void {
    if (existsSync(this.folder)) return;
    const { nest } = this.cell;
    const plain = { ...this.cell, adapter: 'express', typeorm: nest === '11' ? '0.3' : '1' } as const;
    const other = new Application(plain, this.tarball, this.bin);
    if (other.folder !== this.folder) other.make();
    const from = other.folder === this.folder ? newApplication(nest) : other.folder;
    mkdirSync(join(this.folder, '..'), { recursive: true });
    // Renamed at the end: a copy that was cut short is none.
    const copy = `${this.folder}-copy`;
    rmSync(copy, { recursive: true, force: true });
    run('cp', ['-a', from, copy], { cwd: '.' });
    run('mv', [copy, this.folder], { cwd: '.' });
  }

  private install(): void {
    const { nest, adapter } = this.cell;
    const npm = (...args: string[]) => this.run('npm', [...options, ...args]);
    const options = ['install', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel', 'error'];
    npm(...packagesFor(this.cell, this.tarball));
    if (adapter === 'fastify') npm(`@nestjs/platform-fastify@${nest}`);
    if (this.isEsm) npm('--save-dev', 'ts-node@10');
  }

  /** What `nest add` writes compiles; README is followed instead of it. */
  private add(): void {
    addByNest((...args) => this.run('npx', args));
    this.run('npx', ['--no', '--', 'tsc', '--noEmit']);
    rmSync(join(this.folder, 'src/webhooks'), { recursive: true });
  }

  /** The command line of the package. */
  command(env: Env, ...args: string[]): string {
    return this.run('npx', ['--no', '--', 'webhook-inbox', ...args], env);
  }

  /** With jest, or vitest. */
  test(env: Env): void {
    this.run('npm', ['test'], env);
  }

  /** By the command of TypeORM's documentation. */
  migrate(env: Env, command: 'run' | 'show' | 'revert'): string {
    const [cli, file] = migrationCommand(this.isEsm);
    return this.run('npx', ['--no', cli!, `migration:${command}`, '-d', file!], env);
  }

  /** Its tables are ours: TypeORM finds nothing to make, and says so with 1. */
  generate(env: Env): string {
    const [cli, file] = migrationCommand(this.isEsm);
    const args = ['--no', cli!, 'migration:generate', 'src/later', '-d', file!];
    return this.run('npx', args, env, 1);
  }

  /** What `npm run start:prod` starts. */
  get main(): string {
    return join(this.folder, 'dist/main.js');
  }

  /** Of what the cell names by its major. */
  versions(): string {
    const packages = ['@nestjs/core', `@nestjs/platform-${this.cell.adapter}`, 'typeorm'];
    const versions = packages.map((name) => {
      const { version } = JSON.parse(
        readFileSync(join(this.folder, 'node_modules', name, 'package.json'), 'utf8'),
      ) as { version: string };
      return `${name.replace('@nestjs/', '')} ${version}`;
    });
    return [...versions, `Node ${this.run('node', ['-p', 'process.versions.node']).trim()}`].join(', ');
  }

  private run(command: string, args: readonly string[], env: Env = {}, expected = 0): string {
    return run(command, args, { cwd: this.folder, bin: this.bin, env, expected });
  }
}

/** The second to the fourth sign the URL, which is an option of theirs. */
export function addByNest(npx: (...args: string[]) => void): void {
  npx(
    '--no',
    'nest',
    'add',
    'nestjs-webhook-inbox',
    '--skip-install',
    '--sources=stripe,square,trello,twilio',
  );
}

/** Does in an application what README says, its tests and the steps of its list but for the installation. */
export function follow(folder: string, cell: Cell): void {
  const isEsm = cell.nest === '12';
  writeModule(folder, cell);
  writeFileSync(join(folder, 'src/webhooks.spec.ts'), spec(cell, isEsm ? '.js' : ''));
  writeFileSync(join(folder, 'ormconfig.ts'), AS_README_SAYS.ormconfig);
  if (!isEsm)
    change(folder, 'tsconfig.build.json', (text) =>
      text.replace('"exclude": [', '"exclude": ["ormconfig.ts", '),
    );
}

/** The module of README in the place of the one that was generated, and its line for main.ts. */
export function writeModule(folder: string, cell: Cell): void {
  const modules = readdirSync(join(folder, 'src'), { recursive: true, encoding: 'utf8' });
  const module = modules.find((name) => name.endsWith('app.module.ts')) ?? 'app.module.ts';
  for (const name of modules.filter((one) => /app\.(controller|service)/.test(one)))
    rmSync(join(folder, 'src', name), { force: true });
  writeFileSync(join(folder, 'src', module), AS_README_SAYS.module);
  change(folder, 'src/main.ts', (text) => adapted(cell, withHooks(text)));
}

export function change(folder: string, name: string, to: (text: string) => string): void {
  writeFileSync(join(folder, name), to(readFileSync(join(folder, name), 'utf8')));
}

/** What `nest new` makes, once for each major version. */
export function newApplication(nest: Cell['nest']): string {
  const folder = join(CACHE, `new-${nest}`);
  const made = join(folder, 'app');
  if (existsSync(join(made, 'package.json'))) return made;
  mkdirSync(folder, { recursive: true });
  const args = ['new', 'app', '--skip-git', '--skip-install', '--package-manager', 'npm'];
  run('npx', ['--yes', '--loglevel', 'error', '-p', `@nestjs/cli@${nest}`, 'nest', ...args], {
    cwd: folder,
  });
  return made;
}

function withHooks(text: string): string {
  if (text.includes('enableShutdownHooks')) return text;
  return text.replace(/create.*\(AppModule.*;\n/, '$&  app.enableShutdownHooks();\n');
}

/** The main.ts of `nest new`, on the adapter. */
function adapted({ adapter }: Cell, text: string): string {
  if (adapter === 'express' || text.includes('FastifyAdapter')) return text;
  const imported = `import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';\n`;
  return `${imported}${text.replace('create(AppModule)', 'create<NestFastifyApplication>(AppModule, new FastifyAdapter())')}`;
}
