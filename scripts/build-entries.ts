import { chmod, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import ts from 'typescript';
import { toCommonJs } from './commonjs.js';
import { slimDeclarations } from './declarations.js';
import { helperModule, HELPERS, shareHelpers } from './helpers.js';

/**
 * The part of the build after `nest build`: the CommonJS twin of `dist`, in `dist/cjs`, and the entries of both. The declarations lie
 * there for both, as CommonJS, which ES modules may import: so a class has one type, however an application imports it.
 */
const DIST = process.argv[2] ?? 'dist';
const CJS = join(DIST, 'cjs');
const FOLDERS = ['src', 'migrations'];

/** An entry of package.json, and the module that it gives. */
const ENTRIES: Readonly<Record<string, string>> = {
  index: 'src/index.js',
  effects: 'src/effects/index.js',
  sources: 'src/sources/index.js',
  migrations: 'migrations/index.js',
  dashboard: 'src/dashboard/index.js',
  testing: 'src/testing/index.js',
};

/** The command line: nobody imports it, so that it needs no twin and no declarations. */
const CLI = 'src/cli/';
const BIN = 'webhook-inbox.js';

const OPTIONS: ts.CompilerOptions = {
  target: ts.ScriptTarget.ES2023,
  module: ts.ModuleKind.ES2022,
  removeComments: true,
};

const helpers = new Map<string, string>();

async function filesOf(folder: string): Promise<string[]> {
  const entries = await readdir(join(DIST, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(DIST.length + 1));
}

/** Comments stay in the declarations only: the two builds have to be downloaded by each application. */
async function buildBoth(file: string): Promise<void> {
  const code = await readFile(join(DIST, file), 'utf8');
  const { outputText } = ts.transpileModule(code, { compilerOptions: OPTIONS });
  await writeBoth(file, shareHelpers(file, outputText, helpers));
}

async function writeBoth(file: string, code: string): Promise<void> {
  await writeFile(join(DIST, file), code);
  if (!file.startsWith(CLI)) await writeFile(join(CJS, file), toCommonJs(file, code));
}

async function build(): Promise<void> {
  await rm(CJS, { recursive: true, force: true });
  for (const file of (await Promise.all(FOLDERS.map(filesOf))).flat()) {
    await mkdir(dirname(join(CJS, file)), { recursive: true });
    if (file.endsWith('.js')) await buildBoth(file);
    else if (file.startsWith(CLI)) await rm(join(DIST, file));
    else await rename(join(DIST, file), join(CJS, file));
  }
  await writeBoth(HELPERS, helperModule(helpers));
  await writeFile(join(CJS, 'package.json'), JSON.stringify({ type: 'commonjs' }));
}

async function buildEntry(name: string, file: string, version: string): Promise<void> {
  const own = (await import(pathToFileURL(join(DIST, file)).href)) as object;
  const names = Object.keys(own);
  const given = `'${file}', own, { version: '${version}', place: PLACE, load: (file) => require('./' + file) }`;
  await writeFile(
    join(DIST, `${name}.js`),
    `import { createRequire } from 'node:module';
import { oneCopy } from './src/one.copy.js';
import * as own from './${file}';
const require = createRequire(import.meta.url);
const one = oneCopy(${given.replace('PLACE', `new URL('.', import.meta.url).href`)});
${names.map((each) => `export const ${each} = one.${each};`).join('\n')}
`,
  );
  await writeFile(
    join(CJS, `${name}.js`),
    `'use strict';
Object.defineProperty(exports, '__esModule', { value: true });
const { oneCopy } = require('./src/one.copy.js');
const own = require('./${file}');
const one = oneCopy(${given.replace('PLACE', '__dirname')});
${names.map((each) => `exports.${each} = one.${each};`).join('\n')}
`,
  );
  await writeFile(join(DIST, `${name}.d.ts`), `export * from './cjs/${name}.js';\n`);
  await writeFile(join(CJS, `${name}.d.ts`), `export * from './${file}';\n`);
}

/** An entry first, so that an application of CommonJS gets the copy of the command line, and not one of its own beside it. */
async function buildBin(): Promise<void> {
  const path = join(DIST, BIN);
  await writeFile(
    path,
    `#!/usr/bin/env node\nimport { main } from './${CLI}index.js';\nawait main(() => import('./index.js'));\n`,
  );
  await chmod(path, 0o755);
}

await build();
const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
for (const [name, file] of Object.entries(ENTRIES)) await buildEntry(name, file, version);
await buildBin();
slimDeclarations(resolve(CJS), Object.keys(ENTRIES));
