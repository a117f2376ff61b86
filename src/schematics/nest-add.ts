import { withImport, withMigrations, withModules } from './edits.js';
import { addedSources, handlerFile, moduleFile, specFile, variablesOf, type AddedSource } from './files.js';

/** Options of `nest add nestjs-webhook-inbox`, as nest-add.schema.json has them. */
export interface NestAddOptions {
  readonly sources?: string;
  readonly sourceRoot?: string;
  readonly skipInstall?: boolean;
}

/** The part of the devkit's tree of files that this file uses. */
export interface FileTree {
  read(path: string): Uint8Array | null;
  exists(path: string): boolean;
  create(path: string, content: string): void;
  overwrite(path: string, content: string): void;
}
/** The part of the devkit's context that this file uses. */
export interface AddContext {
  readonly logger: { info(text: string): void; warn(text: string): void };
  addTask(task: { toConfiguration(): { readonly name: string; readonly options: object } }): unknown;
}

interface Manifest {
  readonly type?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

/** Packages that the module needs, by the major version of Nest. */
const PACKAGES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  11: { '@nestjs/schedule': '^6.0.0', '@nestjs/typeorm': '^11.0.0', typeorm: '^0.3.20', pg: '^8.13.0' },
  12: { '@nestjs/schedule': '^12.0.0', '@nestjs/typeorm': '^12.0.0', typeorm: '^1.0.0', pg: '^8.13.0' },
};

const TYPEORM = `TypeOrmModule.forRootAsync({
      useFactory: () => ({
        type: 'postgres' as const,
        url: process.env.DATABASE_URL,
        autoLoadEntities: true,
        migrations: [...webhookInboxMigrations()],
        migrationsRun: true,
      }),
    })`;

/**
 * `nest add nestjs-webhook-inbox`: a rule of the devkit, which is a function of its tree and context. It changes what it can read for
 * sure, and says the rest.
 * @throws InputRefused for a provider that is unknown
 */
export function nestAdd({ sources = 'stripe', sourceRoot = 'src', skipInstall = false }: NestAddOptions) {
  const added = addedSources(sources);
  return (tree: FileTree, context: AddContext): void => {
    const manifest = JSON.parse(textOf(tree, 'package.json') ?? '{}') as Manifest;
    const end = manifest.type === 'module' ? '.js' : '';
    addPackages(tree, manifest);
    addFiles(tree, context, `${sourceRoot}/webhooks`, added, { end, suffix: suffixOf(tree, sourceRoot) });
    addToModule(tree, context, `${sourceRoot}/app.module.ts`, end);
    addShutdown(tree, context, `${sourceRoot}/main.ts`);
    if (!skipInstall)
      context.addTask({ toConfiguration: () => ({ name: 'node-package', options: { command: 'install' } }) });
    const variables = added
      .flatMap(variablesOf)
      .map(([variable]) => variable)
      .join(', ');
    context.logger.info(
      `Set DATABASE_URL and ${variables}, then start the application. docs/getting-started.md goes on from here.`,
    );
  };
}

function addPackages(tree: FileTree, manifest: Manifest): void {
  const { dependencies = {}, devDependencies = {} } = manifest;
  const major = /\d+/.exec(dependencies['@nestjs/core'] ?? '')?.[0] ?? '12';
  const packages = PACKAGES[major] ?? PACKAGES[12]!;
  const missing = Object.entries(packages).filter(
    ([name]) => !(name in dependencies || name in devDependencies),
  );
  const all = Object.entries({ ...dependencies, ...Object.fromEntries(missing) }).sort(([a], [b]) =>
    a < b ? -1 : 1,
  );
  const text = JSON.stringify({ ...manifest, dependencies: Object.fromEntries(all) }, undefined, 2);
  tree.overwrite('package.json', `${text}\n`);
}

function addFiles(
  tree: FileTree,
  context: AddContext,
  folder: string,
  sources: readonly AddedSource[],
  { end, suffix }: { readonly end: string; readonly suffix: string },
): void {
  const files: [string, string][] = [
    [`${folder}/webhooks.module.ts`, moduleFile(sources, end)],
    ...sources.flatMap((source): [string, string][] => [
      [`${folder}/${source.name}.webhooks.ts`, handlerFile(source)],
      [`${folder}/${source.name}.webhooks.${suffix}.ts`, specFile(source, sources, end)],
    ]),
  ];
  for (const [path, text] of files) {
    if (tree.exists(path)) context.logger.warn(`${path} is there already, and is left as it is.`);
    else tree.create(path, text);
  }
}

/** As the application's own tests are named: spec, or test. */
function suffixOf(tree: FileTree, sourceRoot: string): string {
  return tree.exists(`${sourceRoot}/app.controller.test.ts`) ? 'test' : 'spec';
}

function addToModule(tree: FileTree, context: AddContext, path: string, end: string): void {
  const before = textOf(tree, path);
  const changed = before === undefined ? undefined : moduleText(before, context, path, end);
  if (changed === undefined)
    context.logger.warn(
      `${path} could not be changed: add AppWebhooksModule, ScheduleModule.forRoot() and TypeOrmModule to the imports of your root module.`,
    );
  else if (changed !== before) tree.overwrite(path, changed);
}

function moduleText(before: string, context: AddContext, path: string, end: string): string | undefined {
  if (before.includes('AppWebhooksModule')) return before;
  const hasTypeorm = before.includes('TypeOrmModule.');
  const hasSchedule = before.includes('ScheduleModule.');
  const entries = [
    ...(hasTypeorm ? [] : [TYPEORM]),
    ...(hasSchedule ? [] : ['ScheduleModule.forRoot()']),
    'AppWebhooksModule',
  ];
  const migrated = hasTypeorm ? withMigrations(before) : before;
  if (migrated === undefined)
    context.logger.warn(
      `${path}: the options of TypeOrmModule are not written there. Add ...webhookInboxMigrations() of nestjs-webhook-inbox/migrations ` +
        `to the migrations of your DataSource, and run them.`,
    );
  let text = withModules(migrated ?? before, entries);
  if (text === undefined) return undefined;
  if (!hasSchedule) text = withImport(text, 'ScheduleModule', '@nestjs/schedule');
  if (!hasTypeorm) text = withImport(text, 'TypeOrmModule', '@nestjs/typeorm');
  if (migrated !== undefined)
    text = withImport(text, 'webhookInboxMigrations', 'nestjs-webhook-inbox/migrations');
  return withImport(text, 'AppWebhooksModule', `./webhooks/webhooks.module${end}`);
}

/** Before the process ends, running work ends, and waiting work is released. */
function addShutdown(tree: FileTree, context: AddContext, path: string): void {
  const text = textOf(tree, path);
  if (text?.includes('enableShutdownHooks') === true) return;
  const listen = text === undefined ? null : /^([ \t]*)await app\.listen\(/m.exec(text);
  if (text === undefined || listen === null) {
    context.logger.warn(`${path}: add app.enableShutdownHooks() before app.listen().`);
    return;
  }
  tree.overwrite(
    path,
    `${text.slice(0, listen.index)}${listen[1]!}app.enableShutdownHooks();\n${text.slice(listen.index)}`,
  );
}

function textOf(tree: FileTree, path: string): string | undefined {
  const bytes = tree.read(path);
  return bytes === null ? undefined : Buffer.from(bytes).toString('utf8');
}
