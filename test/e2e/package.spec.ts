import { execFile as execFileCallback, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import webpack from 'webpack';
import { createDatabase, type TestDatabase } from '../support/database.js';
import { addedSources, handlerFile, moduleFile, specFile } from '../../src/schematics/files.js';
import { providersByName } from '../../src/sources/index.js';
import { forgottenTypes } from '../support/forgotten-types.js';
import { send } from '../support/http.js';
import { awardee, AWARDEE_SECRET } from '../support/signing.js';

const execFile = promisify(execFileCallback);
const ROOT = resolve('.');
const bin = (path: string) => join(ROOT, 'node_modules', path);

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
  readonly name: string;
  readonly exports: Record<string, string | Record<'import' | 'require', { types: string; default: string }>>;
  readonly scripts: Record<string, string>;
  readonly dependencies: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
}

interface Component {
  readonly name: string;
}

interface Packed {
  readonly filename: string;
  readonly size: number;
}

/** What a consumer writes: an ordinary Nest application with a DataSource file for the TypeORM CLI. */
const CONSUMER = {
  'package.json': JSON.stringify({ name: 'consumer', type: 'module' }),
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      module: 'nodenext',
      target: 'es2023',
      strict: true,
      // The declarations of the package itself are checked; those of others are not this test's business.
      skipLibCheck: false,
      types: ['node'],
      experimentalDecorators: true,
      emitDecoratorMetadata: true,
      outDir: 'out',
    },
    include: ['*.ts'],
  }),
  'data-source.ts': `
    import { DataSource, type DataSourceOptions } from 'typeorm';
    import { webhookInboxMigrations } from 'nestjs-webhook-inbox/migrations';
    export const options = {
      type: 'postgres', url: process.env.DATABASE_URL!, migrations: webhookInboxMigrations(),
    } satisfies DataSourceOptions;
    export default new DataSource(options);`,
  'main.ts': `
    import 'reflect-metadata';
    import { Injectable, Module } from '@nestjs/common';
    import { NestFactory } from '@nestjs/core';
    import { ScheduleModule } from '@nestjs/schedule';
    import { TypeOrmModule } from '@nestjs/typeorm';
    import { OnWebhook, OnEffect, WebhooksModule, type HandlerContext, type WebhookEvent } from 'nestjs-webhook-inbox';
    import { httpEffect } from 'nestjs-webhook-inbox/effects';
    import { hmac } from 'nestjs-webhook-inbox/sources';
    import { WebhooksDashboardModule } from 'nestjs-webhook-inbox/dashboard';
    import { options } from './data-source.js';

    @Injectable()
    class Grants {
      @OnWebhook('awardee', 'grant.made')
      async made(event: WebhookEvent<{ amount: number }>, { enqueue }: HandlerContext) {
        await enqueue('print', { amount: event.payload.amount });
      }

      @OnEffect('print')
      print(payload: { amount: number }) {
        console.log('printed ' + payload.amount + ' ' + typeof httpEffect);
      }
    }

    @Module({
      imports: [
        TypeOrmModule.forRoot(options),
        ScheduleModule.forRoot(),
        WebhooksModule.forRoot({
          sources: { awardee: hmac({ secrets: [process.env.SECRET!], signatureHeader: 'X-Awardee-Signature',
            idHeader: 'X-Awardee-Delivery', typeHeader: 'X-Awardee-Event' }) },
        }),
        WebhooksDashboardModule.forRoot({ path: 'desk', allowUnauthenticated: true }),
      ],
      providers: [Grants],
    })
    class AppModule {}

    async function main() {
      const app = await NestFactory.create(AppModule, { logger: ['error', 'fatal'] });
      app.enableShutdownHooks();
      await app.listen(0, '127.0.0.1');
      console.log('listening ' + await app.getUrl());
    }
    void main();`,
};

async function compile(folder: string): Promise<void> {
  await execFile(process.execPath, [bin('typescript/bin/tsc'), '-p', folder]).catch(
    (error: { stdout: string }) => {
      throw new Error(error.stdout);
    },
  );
}

/** The packages that an ES module and those it imports need. */
function packagesOf(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return new Set();
  seen.add(file);
  const imports = [...readFileSync(file, 'utf8').matchAll(/^(?:import|export) .* from '([^']+)';$/gm)];
  const names = imports.map(([, name]) => name!);
  const ours = names.filter((name) => name.startsWith('.'));
  return new Set([
    ...names.filter((name) => !name.startsWith('.')),
    ...ours.flatMap((name) => [...packagesOf(join(dirname(file), name), seen)]),
  ]);
}

/** A CommonJS application with a module that is ESM, and the other way round; and a copy of another version beside. */
const TWO_WAYS = {
  'feature.mjs': `
    import { PermanentError, OnWebhook } from 'nestjs-webhook-inbox';
    import { deliver } from 'nestjs-webhook-inbox/testing';
    export class Feature { paid() {} }
    const { prototype } = Feature;
    OnWebhook('stripe', 'invoice.paid', { name: 'paid' })(prototype, 'paid', Object.getOwnPropertyDescriptor(prototype, 'paid'));
    export const thrown = new PermanentError('no');
    export { deliver };`,
  'two-ways.cjs': `
    const { cpSync, readFileSync, writeFileSync } = require('node:fs');
    const inbox = require('nestjs-webhook-inbox');
    const other = __dirname + '/node_modules/other';
    cpSync(__dirname + '/node_modules/nestjs-webhook-inbox/dist/cjs', other, { recursive: true });
    const entry = readFileSync(other + '/index.js', 'utf8');
    writeFileSync(other + '/index.js', entry.replace(/version: '[^']+'/, "version: '9.9.9'"));
    let second;
    try { require('other'); } catch (error) { second = error.code; }
    import('./feature.mjs').then(({ Feature, thrown, deliver }) => console.log(JSON.stringify({
      metadata: Reflect.getMetadataKeys(Feature.prototype.paid)
        .flatMap((key) => Reflect.getMetadata(key, Feature.prototype.paid)).map(({ options }) => options.name),
      error: thrown instanceof inbox.PermanentError,
      testing: deliver === require('nestjs-webhook-inbox/testing').deliver ? typeof deliver : 'another',
      second,
    })));`,
  'reversed.mjs': `
    import { createRequire } from 'node:module';
    import { WebhooksModule } from 'nestjs-webhook-inbox';
    import { webhookInboxMigrations } from 'nestjs-webhook-inbox/migrations';
    const require = createRequire(import.meta.url);
    console.log(JSON.stringify({
      module: require('nestjs-webhook-inbox').WebhooksModule === WebhooksModule,
      migrations: require('nestjs-webhook-inbox/migrations').webhookInboxMigrations === webhookInboxMigrations,
    }));`,
};

/** An application that a bundler puts into one file with the package. As CommonJS, it has no `import.meta.url` for esbuild. */
const BUNDLED = {
  'bundled.ts': `
    import { WebhooksModule } from 'nestjs-webhook-inbox';
    import { deliver } from 'nestjs-webhook-inbox/testing';
    import { webhookInboxMigrations } from 'nestjs-webhook-inbox/migrations';
    console.log(typeof WebhooksModule.forRoot, typeof deliver, webhookInboxMigrations().length);`,
  'vite.bundled.mjs': `
    const { FORMAT } = process.env;
    const isCommonJs = FORMAT === 'cjs';
    export default {
      logLevel: 'error',
      ssr: { noExternal: ['nestjs-webhook-inbox'] },
      define: isCommonJs ? { 'import.meta.url': 'undefined' } : {},
      build: { ssr: 'bundled.ts', outDir: FORMAT, emptyOutDir: false,
        rollupOptions: { output: { format: FORMAT, entryFileNames: isCommonJs ? '[name].cjs' : '[name].mjs' } } },
    };`,
};

/** Pages beside the package's manifest. */
const TOP_PAGES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md'];
const ENTRIES = ['index', 'effects', 'sources', 'migrations', 'dashboard', 'bullmq', 'testing'];

/** Public names in an application's own declarations, which have to name their types. */
const USE = `
    import { stripe, WebhooksModule, Operator, OnWebhook, PermanentError, SignatureGuard, type WebhooksOptions } from 'nestjs-webhook-inbox';
    import type { ControllerOptions, EffectContext, EffectOptions, EnqueueOptions, HandlerContext, HandlerOptions,
      RelayOptions, RetentionOptions, SourcePolicies, SourceRetention, WebhookEvent } from 'nestjs-webhook-inbox';
    import { httpEffect } from 'nestjs-webhook-inbox/effects';
    import { github, hmac } from 'nestjs-webhook-inbox/sources';
    import { webhookInboxMigrations } from 'nestjs-webhook-inbox/migrations';
    import { WebhooksDashboardModule } from 'nestjs-webhook-inbox/dashboard';
    import { deliver, runDue } from 'nestjs-webhook-inbox/testing';
    import type { INestApplication } from '@nestjs/common';

    declare module 'nestjs-webhook-inbox' {
      interface WebhookEffects { mail: { id: string } }
    }

    export const sources = {
      stripe: stripe({ secrets: ['whsec'] }),
      github: github({ secrets: async () => ['secret'] }),
      other: hmac({ secrets: ['secret'], signatureHeader: 'a', idHeader: 'b', typeHeader: 'c' }),
    };
    export const options: WebhooksOptions = { sources, relay: { lease: '30s' } };
    export const module = WebhooksModule.forRoot(options);
    export class Handlers {
      @OnWebhook('stripe', 'invoice.paid')
      async paid(event: WebhookEvent<{ id: string }>, { enqueue }: HandlerContext) {
        await enqueue('mail', event.payload);
        // @ts-expect-error: its payload is declared above
        await enqueue('mail', { id: 1 });
        throw new PermanentError('no');
      }
    }
    export const effect = (context: EffectContext) => httpEffect({ url: 'https://example.com', json: {} }, context);
    export const migrations = webhookInboxMigrations();
    export { SignatureGuard, WebhooksDashboardModule };
    // Whatever an application may lack can be handed on as it is.
    export const lacking = (lease: string | undefined, isOff: boolean | undefined, classify?: HandlerOptions['classify']) =>
      [
        WebhooksModule.forRoot({ sources, schema: lease, notify: isOff, relay: { lease, effects: undefined }, claims: undefined }),
        stripe({ secrets: ['whsec'], tolerance: lease, retention: { bodies: lease } }),
        github({ secrets: ['secret'], legacySha1: isOff }),
        hmac({ secrets: ['secret'], signatureHeader: 'a', idHeader: 'b', typeHeader: lease, retries: undefined }),
        OnWebhook('stripe', 'a', { name: lease, classify, retry: { base: lease } }),
      ];
    type Refused<T> = { [K in keyof T]-?: object extends Pick<T, K> ? (undefined extends Required<T>[K] ? never : K) : never }[keyof T];
    export const refused: never[] = [] as (
      | Refused<WebhooksOptions> | Refused<RelayOptions> | Refused<RetentionOptions> | Refused<SourcePolicies>
      | Refused<SourceRetention> | Refused<HandlerOptions> | Refused<EffectOptions> | Refused<EnqueueOptions>
      | Refused<ControllerOptions> | Refused<Parameters<typeof httpEffect>[0]>
      | Refused<Parameters<typeof WebhooksDashboardModule.forRoot>[0]>
    )[];
    export async function use(app: INestApplication) {
      const revived: string[] = await app.get(Operator).revive([], { by: 'a', reason: 'b' });
      await deliver(app, 'stripe', { id: 'a', type: 'b', payload: {} });
      return [await runDue(app), revived] as const;
    }`;

const STRICT = {
  target: 'es2023',
  strict: true,
  exactOptionalPropertyTypes: true,
  declaration: true,
  skipLibCheck: false,
  types: ['node'],
  experimentalDecorators: true,
  emitDecoratorMetadata: true,
  outDir: 'out',
};

/** Nest 12 is ESM: what requires it, TypeScript takes from \`nodenext\` on. */
const COMPILERS = [
  { type: 'module', module: 'node16' },
  { type: 'module', module: 'node18' },
  { type: 'module', module: 'nodenext' },
  { type: 'commonjs', module: 'nodenext' },
  { type: 'module', module: 'esnext', moduleResolution: 'bundler' },
  {
    type: 'commonjs',
    module: 'commonjs',
    moduleResolution: 'node10',
    ignoreDeprecations: '6.0',
    skipLibCheck: true,
  },
];

/** What `nest add` writes for every provider that it takes, and an application's root module. */
function added(): [file: string, text: string][] {
  const byHand = ['hmac', 'convoy', 'custom', 'dropbox', 'plaid'];
  const all = addedSources([...providersByName.keys()].filter((name) => !byHand.includes(name)).join(','));
  return [
    ['app.module.ts', 'export class AppModule {}'],
    ['webhooks/webhooks.module.ts', moduleFile(all, '.js')],
    ...all.map((one): [string, string] => [`webhooks/${one.name}.webhooks.ts`, handlerFile(one)]),
    ['webhooks/stripe.webhooks.spec.ts', specFile(all[0]!, all, '.js')],
  ];
}

describe('the package as it is published', () => {
  let folder: string;
  let installed: string;
  let manifest: Manifest;
  let packed: Packed;
  let database: TestDatabase;

  beforeAll(async () => {
    manifest = JSON.parse(await readFile('package.json', 'utf8')) as Manifest;
    database = await createDatabase({ empty: true });
    folder = await mkdtemp(join(tmpdir(), 'webhook-inbox-'));
    installed = join(folder, 'app/node_modules', manifest.name);

    const source = join(folder, 'source');
    await mkdir(source);
    for (const file of ['package.json', ...TOP_PAGES, 'LICENSE', 'docs', 'schematics'])
      await cp(file, join(source, file), { recursive: true });
    await execFile(process.execPath, [
      bin('typescript/bin/tsc'),
      '-p',
      'tsconfig.build.json',
      '--outDir',
      join(source, 'dist'),
    ]);
    await symlink(join(ROOT, 'node_modules'), join(source, 'node_modules'));
    const page = ['build', 'dashboard', '--outDir', join(source, 'dist/dashboard'), '--logLevel', 'error'];
    // Jest’s would make a page for development of it, 5 kB larger.
    const env = { ...process.env, NODE_ENV: 'production' };
    await execFile(process.execPath, [bin('vite/bin/vite.js'), ...page], { env });
    const register = ['--import', '@swc-node/register/esm-register'];
    await execFile(process.execPath, [...register, 'scripts/build-entries.ts', join(source, 'dist')], {
      env: { ...process.env, NODE_OPTIONS: '' },
    });
    const { stdout } = await execFile(
      'npm',
      ['pack', '--ignore-scripts', '--json', '--pack-destination', folder],
      { cwd: source },
    );
    [packed] = JSON.parse(stdout) as [Packed];
    const { filename } = packed;
    await mkdir(installed, { recursive: true });
    await execFile('tar', ['-xzf', join(folder, filename), '-C', installed, '--strip-components=1']);

    // What npm would install beside it: its dependencies and peers, and the adapter and types of the consumer.
    const beside = [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)];
    for (const name of [...beside, '@nestjs/platform-express', '@types/node', '@types/pg']) {
      const link = join(folder, 'app/node_modules', name);
      await mkdir(dirname(link), { recursive: true });
      await symlink(bin(name), link);
    }
    for (const [file, text] of Object.entries(CONSUMER)) await writeFile(join(folder, 'app', file), text);
  }, 600_000);
  afterAll(async () => {
    await database?.drop();
    await rm(folder, { recursive: true, force: true });
  });

  it('holds what its exports name, and neither tests nor examples', async () => {
    const targets = Object.values(manifest.exports).flatMap((target) =>
      typeof target === 'string' ? [target] : Object.values(target).flatMap((one) => Object.values(one)),
    );
    expect(targets.length).toBeGreaterThan(20);
    for (const target of targets) await expect(readFile(join(installed, target))).resolves.toBeDefined();
    const { stdout } = await execFile('find', [installed, '-type', 'f']);
    const files = stdout.split('\n').map((file) => file.slice(installed.length + 1));
    expect(files.filter((file) => /\.spec\.|^(dist\/)?(test|examples|bench)\//.test(file))).toEqual([]);
  });

  it('has no fail points, and no switch of a test: the environment gives it nothing but what its command line documents', async () => {
    const { stdout } = await execFile('find', [join(installed, 'dist'), '-name', '*.js']);
    const texts = stdout
      .trim()
      .split('\n')
      .map((file) => readFileSync(file, 'utf8'));
    expect(texts.length).toBeGreaterThan(20);
    expect(texts.filter((text) => /fail.?point/i.test(text))).toEqual([]);
    const read = texts.flatMap((text) =>
      [...text.matchAll(/process\.env[.[]['"]?(\w+)|\{\s*(\w+)[^{}]*\}\s*=\s*process\.env/g)].map(
        ([, name, taken]) => name ?? taken,
      ),
    );
    expect(new Set(read)).toEqual(new Set(['DATABASE_URL', 'NODE_ENV']));
  });

  it('passes the tests of the examples and of the crash kit, which import its entries', async () => {
    const jest = ['--experimental-vm-modules', '--no-warnings', bin('jest/bin/jest.js')];
    const env = { ...process.env, NODE_OPTIONS: '', PACKAGE: installed };
    const args = [...jest, '--config', 'jest.packed.config.mjs', '--json', '--silent'];
    const { stdout } = await execFile(process.execPath, args, { env, maxBuffer: 2 ** 26 }).catch(
      (error: { stderr: string }) => {
        throw new Error(error.stderr.slice(-8_000));
      },
    );
    const { numPassedTests, testResults } = JSON.parse(stdout) as {
      numPassedTests: number;
      testResults: { name: string }[];
    };
    const names = testResults.map(({ name }) => name.slice(ROOT.length + 1)).sort();
    expect(names).toEqual([
      'examples/billing/billing.spec.ts',
      'examples/github-bot/bot.spec.ts',
      'examples/shopify-tenants/shopify.spec.ts',
      'test/integration/crash-kit.spec.ts',
    ]);
    expect(numPassedTests).toBeGreaterThan(18);
  }, 900_000);

  it('holds what its documents link to, and is built before it is packed', async () => {
    const docs = (await readdir(join(installed, 'docs'))).map((name) => `docs/${name}`);
    const broken: string[] = [];
    for (const name of [...TOP_PAGES, ...docs]) {
      const links = [...(await readFile(join(installed, name), 'utf8')).matchAll(/\]\(([^)#\s]+)/g)];
      const local = links.map(([, link]) => link!).filter((link) => !/^[a-z]+:/.test(link));
      const missing = local.filter((link) => !existsSync(join(installed, dirname(name), link)));
      broken.push(...missing.map((link) => `${name}: ${link}`));
    }
    expect(docs.length).toBeGreaterThan(5);
    expect(broken).toEqual([]);
    expect(manifest.scripts.prepack).toBe('npm run build');
  });

  it('is less than 500 kB to download', () => {
    expect(packed.size).toBeLessThan(500_000);
  });

  it('has a bill of materials with each dependency, and what that needs', async () => {
    const { stdout } = await execFile('npm', ['run', '--silent', 'sbom']);
    const bill = JSON.parse(stdout) as { metadata: { component: Component }; components: Component[] };
    const names = bill.components.map(({ name }) => name);
    expect(bill.metadata.component.name).toBe(manifest.name);
    expect(names).toEqual(expect.arrayContaining([...Object.keys(manifest.dependencies), 'luxon']));
    expect(names.filter((name) => /^@nestjs|^jest$|^typeorm$/.test(name))).toEqual([]);
  });

  it('has a command line, and what `nest add` runs', async () => {
    const command = join(folder, 'app/node_modules', manifest.name, manifest.bin['webhook-inbox']!);
    const env = { ...process.env, NODE_OPTIONS: '', DATABASE_URL: database.url };
    const cli = (...args: string[]) => execFile(process.execPath, [command, ...args], { env });
    expect((await cli('--help')).stdout).toContain('Usage: webhook-inbox');
    expect((await cli('migrate-sql')).stdout).toContain('webhook_event');
    await expect(cli('doctor')).rejects.toMatchObject({ stderr: expect.stringContaining('--app') as string });
    await expect(cli('status')).rejects.toMatchObject({
      stderr: expect.stringContaining('migration') as string,
    });
    const { schematics } = JSON.parse(
      await readFile(join(installed, 'schematics/collection.json'), 'utf8'),
    ) as { schematics: Record<string, { factory: string }> };
    const [file, name] = schematics['nest-add']!.factory.split('#');
    const { stdout } = await execFile(
      process.execPath,
      ['-p', `typeof require('${join(installed, 'schematics', file!)}')['${name}']`],
      { env },
    );
    expect(stdout.trim()).toBe('function');
  });

  it('loads nothing of Nest for the migrations, which TypeORM’s command line loads', () => {
    const packages = packagesOf(join(installed, 'dist/migrations.js'));
    expect([...packages].filter((name) => /nest|rxjs|undici/.test(name))).toEqual([]);
    expect([...packagesOf(join(installed, 'dist/cjs/migrations.d.ts'))]).toEqual(['typeorm']);
    expect(packagesOf(join(installed, 'dist/index.js'))).toContain('@nestjs/core');
  });

  it.each(['cjs', 'es'])(
    'runs when a bundler has made one file (%s) of it and its application',
    async (FORMAT) => {
      const app = join(folder, 'app');
      for (const [file, text] of Object.entries(BUNDLED)) await writeFile(join(app, file), text);
      const vite = [bin('vite/bin/vite.js'), 'build', '--config', 'vite.bundled.mjs'];
      const env = { ...process.env, NODE_OPTIONS: '', NODE_ENV: 'production', FORMAT };
      await execFile(process.execPath, vite, { cwd: app, env });
      const file = join(FORMAT, FORMAT === 'cjs' ? 'bundled.cjs' : 'bundled.mjs');
      const { stdout } = await execFile(process.execPath, [file], { cwd: app, env });
      expect(stdout).toBe('function function 1\n');
    },
  );

  it('gives a name to each type that its public names are made of', () => {
    expect(forgottenTypes(join(installed, 'dist/cjs'), ENTRIES)).toEqual([]);
  });

  it('compiles what `nest add` writes, for every provider', async () => {
    const app = join(folder, 'app/added');
    await mkdir(join(app, 'webhooks'), { recursive: true });
    await symlink(bin('@types/jest'), join(folder, 'app/node_modules/@types/jest'));
    for (const name of ['@nestjs/testing', 'jest-mock', 'expect'])
      await symlink(bin(name), join(folder, 'app/node_modules', name)).catch(() => undefined);
    const options = { ...STRICT, module: 'nodenext', types: ['node', 'jest'], skipLibCheck: true };
    await writeFile(join(app, 'package.json'), JSON.stringify({ type: 'module' }));
    await writeFile(join(app, 'tsconfig.json'), JSON.stringify({ compilerOptions: options, include: ['.'] }));
    for (const [file, text] of added()) await writeFile(join(app, file), text);
    await compile(app);
  }, 120_000);

  it.each(COMPILERS)(
    'compiles with $module in an application that is $type',
    async ({ type, ...options }) => {
      const app = join(folder, 'app', `types-${type}-${options.module}`);
      await mkdir(app);
      await writeFile(join(app, 'package.json'), JSON.stringify({ type }));
      await writeFile(
        join(app, 'tsconfig.json'),
        JSON.stringify({ compilerOptions: { ...STRICT, ...options }, files: ['use.ts'] }),
      );
      await writeFile(join(app, 'use.ts'), USE);
      await compile(app);
    },
    120_000,
  );

  it('has nothing to find fault with for publint, nor for "are the types wrong", in any entry', async () => {
    const tarball = join(folder, packed.filename);
    await execFile(process.execPath, [bin('publint/src/cli.js'), installed, '--strict', '--pack', 'false']);
    await execFile(process.execPath, [bin('@arethetypeswrong/cli/dist/index.js'), tarball]);
  }, 120_000);

  it('is one copy in a process whose application requires it and whose module imports it', async () => {
    const app = join(folder, 'app');
    for (const [file, text] of Object.entries(TWO_WAYS)) await writeFile(join(app, file), text);
    const { stdout } = await execFile(process.execPath, ['two-ways.cjs'], { cwd: app });
    expect(JSON.parse(stdout)).toEqual({
      metadata: ['paid'],
      error: true,
      testing: 'function',
      second: 'CONFIGURATION',
    });
    const { stdout: reversed } = await execFile(process.execPath, ['reversed.mjs'], { cwd: app });
    expect(JSON.parse(reversed)).toEqual({ module: true, migrations: true });
  });

  describe('in an application', () => {
    let app: string;
    let env: NodeJS.ProcessEnv;

    beforeAll(async () => {
      app = join(folder, 'app');
      await compile(app);
      const { url: DATABASE_URL } = database;
      env = { ...process.env, NODE_OPTIONS: '', NODE_PATH: '', DATABASE_URL, SECRET: AWARDEE_SECRET };
    }, 240_000);

    it('gives the TypeORM CLI its migrations', async () => {
      const cli = [bin('typeorm/cli.js'), 'migration:run', '-d', 'out/data-source.js'];
      const run = () => execFile(process.execPath, cli, { cwd: app, env });
      expect((await run()).stdout).toContain('has been executed successfully');
      expect((await run()).stdout).toContain('No migrations are pending');
    }, 60_000);

    it.each([
      ['as it is', () => Promise.resolve('out/main.js')],
      ['bundled as ES modules', () => byEsbuild('esm')],
      ['bundled as CommonJS', () => byEsbuild('cjs')],
      ['bundled by webpack', byWebpack],
    ])(
      '%s: a receiver, its desk, a clean end',
      async (way, made) => {
        const eventId = `d-${way.replaceAll(' ', '-')}`;
        const child = spawn(process.execPath, [await made()], {
          cwd: app,
          env,
          stdio: ['ignore', 'pipe', 'inherit'],
        });
        const ended = once(child, 'exit');
        try {
          const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
          const listening = String((await lines.next()).value);
          expect(listening).toMatch(/^listening http/);
          const origin = listening.slice('listening '.length);
          const { headers, body } = awardee(eventId, 'grant.made', { amount: 7 });
          const reply = await send(origin, { path: '/webhooks/awardee', headers, body });
          expect(reply.text).toBe('{"status":"ok"}');
          expect(String((await lines.next()).value)).toBe('printed 7 function');
          await expectDesk(origin);
        } finally {
          child.kill('SIGTERM');
        }
        const [status, signal] = (await ended) as [number | null, string | null];
        expect(signal ?? status).toBe('SIGTERM');
        expect(
          await database.query(`SELECT state FROM webhook_event WHERE event_id = $1`, [eventId]),
        ).toEqual([{ state: 'processed' }]);
      },
      120_000,
    );

    /** What an application leaves out of its bundle. */
    const others = () => [...Object.keys(manifest.dependencies), ...Object.keys(manifest.peerDependencies)];

    /** Of the application's own code and this package, in a folder where nothing of it lies beside. */
    async function byEsbuild(format: 'esm' | 'cjs'): Promise<string> {
      const outfile = join(app, 'bundle', format === 'esm' ? 'main.mjs' : 'main.cjs');
      await build({
        entryPoints: [join(app, 'out/main.js')],
        outfile,
        format,
        bundle: true,
        platform: 'node',
        external: others(),
        logLevel: 'error',
      });
      await expectNoTestingKit(outfile);
      return outfile;
    }

    /** Signing is production's too: a forward signs anew. Names of one word, such as `drain`, are methods there as well. */
    async function expectNoTestingKit(outfile: string): Promise<void> {
      const kit = (await import(join(installed, 'dist/testing.js'))) as object;
      const names = Object.keys(kit).filter(
        (name) => /[a-z][A-Z]/.test(name) && !['signWebhook', 'testKeys'].includes(name),
      );
      expect(names).toEqual(expect.arrayContaining(['crashEverywhere', 'failNext', 'fakeEffect']));
      const bundled = await readFile(outfile, 'utf8');
      expect(names.filter((name) => new RegExp(`\\b${name}\\b`).test(bundled))).toEqual([]);
    }

    async function byWebpack(): Promise<string> {
      const compiler = webpack({
        entry: join(app, 'out/main.js'),
        output: { path: join(app, 'webpack'), filename: 'main.cjs' },
        mode: 'production',
        target: 'node20',
        externalsType: 'commonjs',
        externals: others().map((name) => new RegExp(`^${name}(/|$)`)),
        // Nest finds a class's dependencies by metadata; names of handlers come from their classes.
        optimization: { minimize: false },
      });
      const { errors } = await new Promise<webpack.StatsCompilation>((resolve, reject) => {
        compiler.run((error, stats) => (stats ? resolve(stats.toJson()) : reject(error!)));
      });
      expect(errors).toEqual([]);
      return join(app, 'webpack/main.cjs');
    }

    async function expectDesk(origin: string): Promise<void> {
      const page = await fetch(`${origin}/desk`);
      const html = await page.text();
      expect([page.status, html]).toEqual([200, expect.stringContaining('<script')]);
      const assets = [...html.matchAll(/(?:src|href)="([^"]+\/assets\/[^"]+)"/g)].map(([, path]) => path!);
      expect(assets.length).toBeGreaterThan(1);
      for (const path of assets) {
        const asset = await fetch(new URL(path, page.url));
        expect([path, asset.status]).toEqual([path, 200]);
        expect((await asset.text()).length).toBeGreaterThan(100);
      }
    }
  });
});

it('TypeORM’s command line runs, shows, generates and reverts the migrations of this repository', async () => {
  const database = await createDatabase({ empty: true });
  const env = {
    ...process.env,
    NODE_OPTIONS: '',
    DATABASE_URL: database.url,
    TS_NODE_TRANSPILE_ONLY: 'true',
  };
  /** By the command of TypeORM's documentation, which ends with 1 where it found nothing to generate. */
  const migration = (command: string, ...args: string[]) =>
    execFile('npx', ['--no', 'typeorm-ts-node-esm', `migration:${command}`, '-d', 'ormconfig.ts', ...args], {
      env,
    }).then(
      ({ stdout }) => stdout,
      ({ stdout, code }: { stdout: string; code: number }) => `${stdout}\nended with ${code}`,
    );
  const tables = () =>
    database.query(`SELECT count(*)::int AS n FROM pg_tables WHERE tablename LIKE 'webhook_%'`);
  expect(await migration('show')).toMatch(/\[ \].*WebhookInbox/);
  expect(await migration('run')).toMatch(/WebhookInbox\d+ has been executed successfully/);
  expect(await tables()).not.toEqual([{ n: 0 }]);
  expect(await migration('show')).not.toMatch(/\[ \]/);
  expect(await migration('generate', 'src/later')).toMatch(
    /No changes in database schema were found.*\n*[\s\S]*ended with 1/,
  );
  const { stdout: byScript } = await execFile('npm', ['run', '--silent', 'migration:show'], { env });
  expect(byScript).toContain('[X]');
  const names = byScript.match(/\[X\]/g) ?? [];
  for (const _ of names) expect(await migration('revert')).toMatch(/has been reverted successfully/);
  expect(await tables()).toEqual([{ n: 0 }]);
  await database.drop();
}, 300_000);
