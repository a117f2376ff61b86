import { readFileSync } from 'node:fs';
import type { Cell } from './cells.js';

const README = readFileSync('README.md', 'utf8');
const TESTING = readFileSync('docs/testing.md', 'utf8');
const STARTED = readFileSync('docs/getting-started.md', 'utf8');

/** What README tells a newcomer to type, read out of it: an application of these tests has nothing else of ours. */
export const AS_README_SAYS = {
  module: blockThat('ts', (text) => text.includes('class AppModule')),
  ormconfig: blockThat('ts', (text) => text.startsWith('// ormconfig.ts\n')),
  send: blockThat('sh', (text) => text.startsWith('body=')),
};

/** Blocks and commands of docs/getting-started.md. */
export const AS_GETTING_STARTED_SAYS = {
  install: blockThat('sh', (text) => text.includes('@nestjs/cli new'), STARTED),
  /** What takes the place of the first block's commands with Nest 11. */
  nest11: [
    spanOf(/`(npx @nestjs\/cli@11 new [^`]+)`/, STARTED),
    spanOf(/`(npm install nestjs-webhook-inbox @nestjs\/schedule@6 [^`]+)`/, STARTED),
  ],
  module: blockThat('ts', (text) => text.includes('class AppModule'), STARTED),
  hooks: blockThat('ts', (text) => text.includes('enableShutdownHooks'), STARTED),
  start: blockThat('sh', (text) => text.startsWith('npx nest start'), STARTED),
  send: blockThat('sh', (text) => text.startsWith('body='), STARTED),
  spec: blockThat('ts', (text) => text.includes('Test.createTestingModule'), STARTED),
  test: spanOf(/run `(npm test)`/, STARTED),
};

/** What docs/testing.md says of Jest with Nest 12. */
export const JEST_AS_DOCS_SAY = {
  config: blockThat('js', (text) => text.startsWith('// jest.config.mjs\n'), TESTING),
  packages: spanOf(/`npm install (--save-dev jest [^`]+)`/).split(' '),
  nodeOptions: spanOf(/`NODE_OPTIONS=(\S+) npx jest`/),
};

function spanOf(pattern: RegExp, page = TESTING): string {
  const [, span] = pattern.exec(page) ?? [];
  if (span === undefined) throw new Error(`a page has lost a command that these tests follow: ${pattern}`);
  return span;
}

/** The arguments of `npm install`, with the tarball for the first name, as for a clone. */
export function packagesFor({ nest, typeorm }: Cell, tarball: string): string[] {
  const commands = [...README.matchAll(/`npm install (nestjs-webhook-inbox [^`]+)`/g)].map(
    ([, names]) => names!,
  );
  const command = commands.find((names) => names.includes('@nestjs/typeorm@11') === (nest === '11'));
  if (command === undefined) throw new Error(`README.md has no npm install for Nest ${nest}`);
  const wanted = typeorm === '1' ? 'typeorm@1' : 'typeorm@0.3';
  return command
    .split(' ')
    .map((name) => (name === 'nestjs-webhook-inbox' ? tarball : name))
    .map((name) => (/^typeorm(@|$)/.test(name) ? wanted : name));
}

/** The command of TypeORM's CLI for an application of ES modules, or of CommonJS. */
export function migrationCommand(isEsm: boolean): string[] {
  const commands = [...README.matchAll(/npx (typeorm-ts-node-\w+) migration:run -d ([\w.]+)/g)];
  const [, cli, file] = commands.find(([, name]) => name!.endsWith('esm') === isEsm) ?? [];
  if (cli === undefined || file === undefined)
    throw new Error('README.md names no command of the TypeORM CLI');
  return [cli, file];
}

function blockThat(language: string, is: (text: string) => boolean, page = README): string {
  const blocks = [...page.matchAll(/```(\w+)[^\n]*\n([\s\S]*?)```/g)].filter(([, name]) => name === language);
  const found = blocks.map(([, , text]) => text!).find(is);
  if (found === undefined) throw new Error(`a page has lost a block of ${language} that these tests follow`);
  return found;
}
