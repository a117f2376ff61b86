import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { nestAdd, type NestAddOptions } from '../../src/schematics/nest-add.js';
import { providersByName } from '../../src/sources/index.js';
import { testKeys } from '../../src/testing/index.js';
import { addedSources, specFile } from '../../src/schematics/files.js';
import { withMigrations, withModules } from '../../src/schematics/edits.js';

const TEMPLATES = 'node_modules/@nestjs/schematics/dist/lib/application/files';

/** An application as `nest new` makes it, in memory. */
class MadeApplication {
  readonly warnings: string[] = [];
  readonly tasks: string[] = [];
  readonly files = new Map<string, string>();

  constructor(template: 'ts' | 'ts-esm', nest = '12') {
    const folder = join(TEMPLATES, template);
    for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      const path = join(entry.parentPath, entry.name);
      const text = readFileSync(path, 'utf8')
        .replaceAll(/<% if \([^]*?<% } %>/g, '')
        .replaceAll(/<%= strict %>/g, 'true')
        .replaceAll(/<%= \w+ %>/g, 'spec')
        .replaceAll('^12.', `^${nest}.`);
      this.files.set(relative(folder, path).replace('__specFileSuffix__', 'spec'), text);
    }
  }

  read(path: string) {
    const text = this.files.get(path);
    return text === undefined ? null : Buffer.from(text);
  }
  exists(path: string) {
    return this.files.has(path);
  }
  create(path: string, text: string) {
    this.files.set(path, text);
  }
  overwrite(path: string, text: string) {
    this.files.set(path, text);
  }

  add(options: NestAddOptions = {}): this {
    const task = ({ toConfiguration }: { toConfiguration: () => { name: string } }) =>
      this.tasks.push(toConfiguration().name);
    nestAdd(options)(this, {
      logger: { info: () => undefined, warn: (text) => this.warnings.push(text) },
      addTask: task,
    });
    return this;
  }

  text(path: string): string {
    return this.files.get(path)!;
  }

  manifest(): { dependencies: Record<string, string> } {
    return JSON.parse(this.text('package.json')) as { dependencies: Record<string, string> };
  }
}

describe('nest add', () => {
  it.each([
    ['CommonJS', 'ts', '11', ''],
    ['CommonJS', 'ts', '12', ''],
    ['ES modules', 'ts-esm', '12', '.js'],
  ] as const)(
    'adds module, handler and test to a made application of %s (%s) of Nest %s',
    (_, template, nest, end) => {
      const app = new MadeApplication(template, nest).add({ sources: 'stripe, github' });
      const module = app.text('src/app.module.ts');
      expect(module).toContain(`import { AppWebhooksModule } from './webhooks/webhooks.module${end}';`);
      expect(module).toContain('migrations: [...webhookInboxMigrations()]');
      expect(module).toContain('ScheduleModule.forRoot()');
      expect(app.text('src/webhooks/webhooks.module.ts')).toContain(
        'github: github({ secrets: [process.env.GITHUB_WEBHOOK_SECRET!] })',
      );
      expect(app.text('src/webhooks/stripe.webhooks.ts')).toContain(`@OnWebhook('stripe', '*')`);
      expect(app.files.has('src/webhooks/github.webhooks.spec.ts')).toBe(true);
      expect(app.text('src/main.ts')).toMatch(/^ {2}app\.enableShutdownHooks\(\);\n {2}await app\.listen/m);
      expect(app.manifest().dependencies).toMatchObject({
        '@nestjs/typeorm': `^${nest}.0.0`,
        '@nestjs/schedule': nest === '11' ? '^6.0.0' : '^12.0.0',
        pg: expect.any(String),
      });
      expect(app.warnings).toEqual([]);
      expect(app.tasks).toEqual(['node-package']);
    },
  );

  it('changes nothing twice', () => {
    const app = new MadeApplication('ts').add();
    const before = new Map(app.files);
    app.add();
    expect(app.files).toEqual(before);
    expect(app.warnings).toHaveLength(3);
  });

  it.each([
    ['no list', '@Module({ controllers: [A] })', '@Module({\n  imports: [\n    B,\n  ], controllers: [A] })'],
    ['an empty list', '@Module({ imports: [] })', '@Module({ imports: [\n    B,\n  ] })'],
    [
      'a list',
      "@Module({ imports: [C.of({ x: ']' }), D] })",
      "@Module({ imports: [\n    C.of({ x: ']' }), D,\n    B,\n  ] })",
    ],
    [
      'a comma at its end',
      '@Module({ imports: [\n    C,\n  ] })',
      '@Module({ imports: [\n    C,\n    B,\n  ] })',
    ],
    ['a list of another file', '@Module({ imports })', undefined],
    ['no module', 'export class A {}', undefined],
  ])('puts a module into %s', (_, before, after) => {
    expect(withModules(before, ['B'])).toBe(after);
  });

  it.each([
    [
      "TypeOrmModule.forRoot({ type: 'postgres' })",
      "TypeOrmModule.forRoot({ type: 'postgres', migrations: [...webhookInboxMigrations()], })",
    ],
    [
      "TypeOrmModule.forRoot({ type: 'postgres', migrations: [A] })",
      "TypeOrmModule.forRoot({ type: 'postgres', migrations: [...webhookInboxMigrations(), A] })",
    ],
    [
      "TypeOrmModule.forRoot({ type: 'postgres', migrations: [] })",
      "TypeOrmModule.forRoot({ type: 'postgres', migrations: [...webhookInboxMigrations()] })",
    ],
    ['TypeOrmModule.forRoot(options)', undefined],
    [
      "TypeOrmModule.forRoot({ type: 'postgres', migrations: ['dist/*.js'].concat(x) })",
      "TypeOrmModule.forRoot({ type: 'postgres', migrations: [...webhookInboxMigrations(), 'dist/*.js'].concat(x) })",
    ],
  ])('adds the migrations to %s', (before, after) => {
    expect(withMigrations(before)).toBe(after);
  });

  it('says what is left to do where the DataSource is configured elsewhere', () => {
    const app = new MadeApplication('ts');
    app.files.set(
      'src/app.module.ts',
      `@Module({ imports: [TypeOrmModule.forRoot(options)] })\nexport class AppModule {}\n`,
    );
    app.add();
    expect(app.text('src/app.module.ts')).toContain('AppWebhooksModule');
    expect(app.warnings).toEqual([expect.stringContaining('Add ...webhookInboxMigrations()')]);
  });

  it('sets a secret in each test that the provider takes, for all sources of the application', () => {
    const byHand = ['hmac', 'convoy', 'custom', 'dropbox', 'plaid'];
    const vendors = [...providersByName.keys()].filter((name) => !byHand.includes(name));
    const sources = addedSources(vendors.join(','));
    const text = specFile(sources[0]!, sources, '');
    for (const { name, secrets, variable, url } of sources) {
      expect(text).toContain(`process.env.${variable} ??= testKeys('${name}').secret;`);
      const { secret } = testKeys(name);
      const options = { [secrets]: [secret], ...(url && { [url]: 'https://example.com' }) };
      const { provider } = providersByName.get(name)!(options);
      expect([name, provider.checkSecret?.(secret)]).toEqual([name, undefined]);
    }
  });

  it.each([
    ['strpe', /no provider 'strpe'; did you mean 'stripe'/],
    ['hmac', /'hmac' has options that only you know/],
    ['stripe, plaid', /'plaid' has options that only you know/],
    [' , ', /expected names of providers/],
  ])('refuses the sources %j', (sources, text) => {
    expect(() => new MadeApplication('ts').add({ sources })).toThrow(text);
  });
});
