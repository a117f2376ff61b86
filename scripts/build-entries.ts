import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import ts from 'typescript';
import type { builtPage } from '../src/dashboard/built.page.js';
import { bundle, wiringFile, type Bundled, type Group } from './bundle.js';
import { entryDeclarations } from './declarations.js';
import { helperModule, HELPERS, shareHelpers } from './helpers.js';
import { partsOf, type ModuleParts } from './module.parts.js';
import { commonJsWiring, esmWiring } from './wiring.js';

/**
 * The part of the build after `nest build`: bundles of the modules, their CommonJS twins in `dist/cjs`, and the entries of both. The
 * declarations lie there for both, as CommonJS, which ES modules may import: so a class has one type, however an application imports it.
 */
const DIST = process.argv[2] ?? 'dist';
const CJS = join(DIST, 'cjs');
const FOLDERS = ['src', 'migrations'];

/** An entry of package.json, and the module that it gives. Those that need little come first. */
const ENTRIES: Readonly<Record<string, string>> = {
  migrations: 'migrations/index.js',
  sources: 'src/sources/index.js',
  effects: 'src/effects/index.js',
  index: 'src/index.js',
  dashboard: 'src/dashboard/index.js',
  bullmq: 'src/transports/bullmq/index.js',
  nats: 'src/transports/nats/index.js',
  rabbitmq: 'src/transports/rabbitmq/index.js',
  testing: 'src/testing/index.js',
};

/** Those that declare come first: an application adds to types of `index` by `declare module`, so that they are declared there. */
const TYPES = [
  'migrations',
  'index',
  'sources',
  'effects',
  'dashboard',
  'bullmq',
  'nats',
  'rabbitmq',
  'testing',
];

/** Gives all entries the exports of one build. */
const ONE_COPY = 'src/one.copy.js';

/** What `nest add` runs: the devkit requires it. */
const SCHEMATIC = 'src/schematics/nest-add.js';
const NEST_ADD = 'nest-add.js';

/** The command line: nobody imports it, so that it needs no twin. */
const CLI = 'src/cli/index.js';
const BIN = 'webhook-inbox.js';

/** Gives the desk's page, from the files that `npm run build:dashboard` has made. In the package it holds them, for bundlers. */
const PAGE = 'src/dashboard/built.page.js';

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.ES2022,
  removeComments: true,
};

const helpers = new Map<string, string>();

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(join(DIST, folder), {
    recursive: true,
    withFileTypes: true,
  });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(DIST.length + 1));
}

/** Comments stay in the declarations only: the two builds have to be downloaded by each application. */
async function partsOfFile(file: string): Promise<ModuleParts> {
  const code = await readFile(join(DIST, file), 'utf8');
  const { outputText } = ts.transpileModule(code, { compilerOptions: OPTIONS });
  return partsOf(file, shareHelpers(file, outputText, helpers));
}

async function embeddedPage(): Promise<ModuleParts> {
  const built = (await import(pathToFileURL(join(DIST, PAGE)).href)) as { builtPage: typeof builtPage };
  const page = built.builtPage(pathToFileURL(join(resolve(DIST), 'dashboard/')));
  if (page === undefined) throw new Error(`${DIST} holds no page: run npm run build:dashboard before`);
  // Half of what the text would take in the packed package.
  const packed = brotliCompressSync(JSON.stringify(page)).toString('base64');
  return partsOf(
    PAGE,
    `import { brotliDecompressSync } from 'node:zlib';
export const builtPage = () => JSON.parse(brotliDecompressSync(Buffer.from('${packed}', 'base64')).toString());`,
  );
}

async function bundleAll(files: readonly string[]): Promise<Bundled> {
  const modules = new Map<string, ModuleParts>();
  for (const file of files.filter((name) => name.endsWith('.js'))) modules.set(file, await partsOfFile(file));
  modules.set(PAGE, await embeddedPage());
  modules.set(HELPERS, partsOf(HELPERS, helperModule(helpers)));
  return bundle(modules, [ONE_COPY, ...Object.values(ENTRIES), SCHEMATIC, CLI], 'src');
}

async function writeGroup(group: Group): Promise<void> {
  if (group.entry !== SCHEMATIC) await writeFile(join(DIST, group.wiring), esmWiring(group, 'cjs'));
  if (group.entry !== CLI) await writeFile(join(CJS, group.wiring), commonJsWiring(group));
  for (const { file, code } of group.bundles) await writeFile(join(CJS, file), code);
}

/** The names that each entry gives, by its file as the compiler has made it. */
async function exportedNames(): Promise<Map<string, string[]>> {
  const names = new Map<string, string[]>();
  for (const [name, file] of Object.entries(ENTRIES))
    names.set(name, Object.keys((await import(pathToFileURL(join(DIST, file)).href)) as object));
  return names;
}

async function writeEntry(
  name: string,
  names: readonly string[],
  version: string,
  { keyOf }: Bundled,
): Promise<void> {
  const file = ENTRIES[name]!;
  const given = (place: string) => `'${name}', own, { version: '${version}', place: ${place} }`;
  await writeFile(
    join(DIST, `${name}.js`),
    `import { $m as shared } from './${wiringFile('src', ONE_COPY)}';
import { $m } from './${wiringFile('src', file)}';
const own = $m['${keyOf(file)}'];
const one = shared['${keyOf(ONE_COPY)}'].oneCopy(${given('import.meta.url')});
${names.map((each) => `export const ${each} = one.${each};`).join('\n')}
`,
  );
  await writeFile(
    join(CJS, `${name}.js`),
    `'use strict';
Object.defineProperty(exports, '__esModule', { value: true });
const { $m: shared } = require('./${wiringFile('src', ONE_COPY)}');
const { $m } = require('./${wiringFile('src', file)}');
const own = $m['${keyOf(file)}'];
const one = shared['${keyOf(ONE_COPY)}'].oneCopy(${given(`typeof __filename === 'string' ? __filename : undefined`)});
${names.map((each) => `exports.${each} = one.${each};`).join('\n')}
`,
  );
  await writeFile(join(DIST, `${name}.d.ts`), `export * from './cjs/${name}.js';\n`);
}

/** An entry first, so that an application of CommonJS gets the copy of the command line, and not one of its own beside it. */
async function writeBin({ keyOf }: Bundled): Promise<void> {
  const path = join(DIST, BIN);
  const text = `import { $m } from './${wiringFile('src', CLI)}';\nawait $m['${keyOf(CLI)}'].main(() => import('./index.js'));\n`;
  await writeFile(path, `#!/usr/bin/env node\n${text}`);
  await chmod(path, 0o755);
}

async function writeSchematic({ keyOf }: Bundled): Promise<void> {
  const given = `require('./${wiringFile('src', SCHEMATIC)}').$m['${keyOf(SCHEMATIC)}'].nestAdd`;
  await writeFile(join(CJS, NEST_ADD), `'use strict';\nexports.nestAdd = ${given};\n`);
}

async function build(): Promise<void> {
  const names = await exportedNames();
  const files = (await Promise.all(FOLDERS.map(filesOf))).flat();
  await rm(CJS, { recursive: true, force: true });
  const declarations = entryDeclarations(
    resolve(DIST),
    TYPES.map((entry) => ({ entry, file: ENTRIES[entry]!, names: names.get(entry)! })),
  );
  const bundled = await bundleAll(files);
  for (const folder of FOLDERS) await rm(join(DIST, folder), { recursive: true });
  await mkdir(join(DIST, 'src'));
  await mkdir(join(CJS, 'src'), { recursive: true });
  for (const group of bundled.groups) await writeGroup(group);
  await writeFile(join(CJS, 'package.json'), JSON.stringify({ type: 'commonjs' }));
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as {
    version: string;
  };
  for (const [name, given] of names) await writeEntry(name, given, version, bundled);
  await writeBin(bundled);
  await writeSchematic(bundled);
  for (const [name, text] of declarations) await writeFile(join(CJS, `${name}.d.ts`), text);
}

await build();
