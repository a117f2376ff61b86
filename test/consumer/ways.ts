import { cpSync, mkdirSync, rmSync, writeFileSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { addByNest, change, follow, newApplication, writeModule } from './application.js';
import { SECRET, tryBuilt } from './cell.js';
import type { Cell } from './cells.js';
import { JEST_AS_DOCS_SAY, packagesFor } from './readme.js';
import { CACHE, installed, nodeFolder, run, type Servers } from './tools.js';

/** An application that another package manager installs, or that is part of a workspace. */
interface Way {
  readonly cell: Cell;
  readonly versions: string;
  /** In a folder that `nest new` has filled. */
  readonly install: (place: Place) => void;
  readonly build: (place: Place) => void;
  /** The application's own tests, where they are part of it. */
  readonly test?: (place: Place, env: Readonly<Record<string, string>>) => void;
  /** None where its tests are all that is tried. */
  readonly main?: string;
  /** Where the application is in its workspace. */
  readonly application?: string;
  /** Arguments of the Node that starts it. */
  readonly args?: readonly string[];
}

interface Place {
  readonly folder: string;
  /** The folder of the Node to run with. */
  readonly bin: string;
  readonly packages: readonly string[];
  readonly run: (command: string, ...args: string[]) => void;
}

const COMMONJS: Cell = { nest: '11', adapter: 'express', typeorm: '0.3', node: '22', postgres: '18' };
const MODULES: Cell = { nest: '12', adapter: 'express', typeorm: '1', node: '22', postgres: '18' };
const PNPM = '12.4.2';
const YARN = '4.18.1';
const NX = '22.7.9';

const pnpm = (place: Place, ...args: string[]) =>
  place.run('node', join(installed('pnpm', PNPM), 'bin/pnpm.mjs'), ...args);
const yarn = (place: Place, ...args: string[]) =>
  place.run('node', join(installed('@yarnpkg/cli-dist', YARN), 'bin/yarn.js'), ...args);
const npm = (place: Place, ...packages: string[]) =>
  place.run(
    'npm',
    'install',
    '--no-audit',
    '--no-fund',
    '--prefer-offline',
    '--loglevel',
    'error',
    ...packages,
  );

/** Its own tests of four sources are run, by Jest or Vitest. */
const ADDED: Pick<Way, 'install' | 'build' | 'test'> = {
  install: (place) => {
    npm(place, place.packages[0]!);
    addByNest((...args) => place.run('npx', ...args));
    npm(place);
  },
  build: (place) => place.run('npm', 'run', 'build'),
  test: ({ folder, bin }, env) => void run('npm', ['test'], { cwd: folder, bin, env }),
};

export const WAYS: Readonly<Record<string, Way>> = {
  'Jest with Nest 12': {
    cell: MODULES,
    versions: 'npm, jest, ts-jest, ES modules',
    install: (place) => {
      npm(place, ...place.packages);
      npm(place, ...JEST_AS_DOCS_SAY.packages);
      follow(place.folder, MODULES);
      writeFileSync(join(place.folder, 'jest.config.mjs'), JEST_AS_DOCS_SAY.config);
      change(place.folder, 'tsconfig.json', (text) =>
        /"isolatedModules": true/.test(text)
          ? text
          : text.replace('"compilerOptions": {', '"compilerOptions": { "isolatedModules": true, '),
      );
    },
    build: (place) => place.run('npm', 'run', 'build'),
    test: ({ folder, bin }, env) => {
      const options = { ...env, NODE_OPTIONS: JEST_AS_DOCS_SAY.nodeOptions };
      run('npx', ['--no', 'jest'], { cwd: folder, bin, env: options });
    },
    main: 'dist/main.js',
  },
  'nest add': {
    cell: COMMONJS,
    versions: 'npm, Nest 11',
    ...ADDED,
  },
  'nest add, ES modules': {
    cell: MODULES,
    versions: 'npm, Nest 12',
    ...ADDED,
  },
  SWC: {
    cell: MODULES,
    versions: 'npm, Nest 12',
    install: (place) => npm(place, ...place.packages, '@swc/cli', '@swc/core'),
    build: (place) => place.run('npx', '--no', 'nest', 'build', '-b', 'swc'),
    main: 'dist/main.js',
  },
  rspack: {
    cell: MODULES,
    versions: 'npm, Nest 12',
    install: (place) =>
      npm(
        place,
        ...place.packages,
        '@rspack/core',
        'webpack-node-externals',
        'tsconfig-paths-webpack-plugin',
      ),
    build: (place) => place.run('npx', '--no', 'nest', 'build', '-b', 'rspack'),
    main: 'dist/main.js',
  },
  'esbuild, one file of CommonJS': {
    cell: COMMONJS,
    versions: 'npm, Nest 11',
    install: (place) => npm(place, ...place.packages, 'esbuild'),
    build: (place) => {
      const outside = ['@nestjs/*', 'typeorm', 'pg', 'rxjs', 'reflect-metadata'];
      const to = ['--bundle', '--platform=node', '--format=cjs', '--outfile=dist/main.js'];
      place.run('npx', '--no', 'esbuild', 'src/main.ts', ...to, ...outside.map((one) => `--external:${one}`));
    },
    main: 'dist/main.js',
  },
  pnpm: {
    cell: MODULES,
    versions: `pnpm ${PNPM}, Nest 12`,
    install: (place) => pnpm(place, 'add', ...place.packages),
    build: (place) => pnpm(place, 'run', 'build'),
    main: 'dist/main.js',
  },
  'yarn node-modules': {
    cell: COMMONJS,
    versions: `yarn ${YARN}, Nest 11`,
    install: (place) => yarnAdd(place, 'node-modules'),
    build: (place) => yarn(place, 'build'),
    main: 'dist/main.js',
  },
  'yarn PnP': {
    cell: COMMONJS,
    versions: `yarn ${YARN}, Nest 11`,
    install: (place) => yarnAdd(place, 'pnp'),
    build: (place) => yarn(place, 'build'),
    main: 'dist/main.js',
    args: ['--require', './.pnp.cjs'],
  },
  'Nest monorepo': {
    cell: COMMONJS,
    versions: 'Nest 11, webpack',
    install: (place) => {
      npm(place, ...place.packages);
      place.run('npx', '--no', 'nest', 'generate', 'app', 'second');
    },
    build: (place) => place.run('npx', '--no', 'nest', 'build', 'app', '--webpack'),
    application: 'apps/app',
    main: 'dist/apps/app/main.js',
  },
  Nx: {
    cell: COMMONJS,
    versions: `Nx ${NX}, Nest 11, webpack`,
    install: (place) => {
      npm(place, ...place.packages, '--save-dev', `nx@${NX}`, `@nx/nest@${NX}`, `@nx/webpack@${NX}`);
      writeFileSync(join(place.folder, 'nx.json'), '{}');
      // As Nx makes it for its own workspaces: its applications extend it.
      writeFileSync(join(place.folder, 'tsconfig.json'), JSON.stringify({ compilerOptions: NX_COMPILER }));
      nx(
        place,
        'generate',
        '@nx/nest:application',
        'apps/shop',
        '--name=shop',
        '--linter=none',
        '--e2eTestRunner=none',
        '--unitTestRunner=none',
        '--no-interactive',
      );
      // README's curl command knows of no prefix.
      const start = join(place.folder, 'apps/shop/src/main.ts');
      writeFileSync(start, readFileSync(start, 'utf8').replace('app.setGlobalPrefix(globalPrefix);', ''));
    },
    build: (place) => nx(place, 'build', 'shop'),
    application: 'apps/shop',
    main: 'dist/apps/shop/main.js',
  },
};

const NX_COMPILER = {
  rootDir: '.',
  sourceMap: true,
  declaration: false,
  moduleResolution: 'node',
  emitDecoratorMetadata: true,
  experimentalDecorators: true,
  target: 'es2015',
  module: 'esnext',
  lib: ['es2020', 'dom'],
  skipLibCheck: true,
  skipDefaultLibCheck: true,
  baseUrl: '.',
};

function nx(place: Place, ...args: string[]): void {
  place.run('npx', '--no', 'nx', ...args);
}

function yarnAdd(place: Place, nodeLinker: string): void {
  // A folder with a lock is a project of its own.
  writeFileSync(join(place.folder, 'yarn.lock'), '');
  writeFileSync(
    join(place.folder, '.yarnrc.yml'),
    `nodeLinker: ${nodeLinker}\nenableTelemetry: false\nenableImmutableInstalls: false\n`,
  );
  yarn(place, 'add', ...place.packages);
}

/** Installs, builds and starts one, and has it handle what README sends. */
export async function tryWay(name: string, tarball: string, servers: Servers): Promise<string> {
  const { cell, versions, install, build, test, main, application = '', args } = WAYS[name]!;
  const bin = nodeFolder(cell.node);
  const folder = join(CACHE, 'ways', name.replace(/\W/g, '-'));
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(newApplication(cell.nest), folder, { recursive: true });
  const place: Place = {
    folder,
    bin,
    packages: packagesFor(cell, tarball),
    run: (command, ...rest) => void run(command, rest, { cwd: folder, bin, env: { NX_DAEMON: 'false' } }),
  };
  install(place);
  if (main !== undefined) writeModule(join(folder, application), cell);
  build(place);
  const env = { DATABASE_URL: await servers.database(cell.postgres), STRIPE_WEBHOOK_SECRET: SECRET };
  test?.(place, env);
  if (main !== undefined)
    await tryBuilt({ main: join(folder, main), node: join(bin, 'node'), env, cwd: folder, args });
  return versions;
}
