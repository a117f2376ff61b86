import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import ts from 'typescript';
import { z } from 'zod';
import { commentFaults } from '../../scripts/comments.js';
import { proseFaults } from '../../scripts/prose.js';
import { optionsSchema } from '../../src/core/options/resolve-options.js';
import { EVENT_STATES, OUTBOX_STATES } from '../../src/core/states.js';
import { HMAC_OPTIONS } from '../../src/sources/providers/hmac.js';
import { POLICY_NAMES } from '../../src/sources/source-options.js';

interface Manifest {
  readonly scripts: Record<string, string>;
  readonly dependencies: Record<string, string>;
  readonly exports: Record<string, string>;
}

const read = (file: string) => readFileSync(file, 'utf8');
const manifest = JSON.parse(read('package.json')) as Manifest;
const PAGES = [
  'README.md',
  'CHANGELOG.md',
  'CONTRIBUTING.md',
  'SECURITY.md',
  ...readdirSync('docs')
    .filter((file) => file.endsWith('.md'))
    .map((file) => `docs/${file}`),
];

/** The fenced blocks of a page in one language. `part` marks a block that is no whole file. */
function blocks(page: string, language: string): string[] {
  return [...read(page).matchAll(/^```(\w+)([^\n]*)\n(.*?)^```/gms)]
    .filter(([, name, mark]) => name === language && mark !== ' part')
    .map(([, , , code]) => code!);
}

/** The anchors of a page's headings, as GitHub makes them. */
function anchors(page: string): ReadonlySet<string> {
  return new Set(
    [...read(page).matchAll(/^#+ (.+)$/gm)].map(([, heading]) =>
      heading!
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .replaceAll(' ', '-'),
    ),
  );
}

/** The cells of the table that follows a heading, without its head. */
function table(text: string, heading: string): string[][] {
  const lines = text.slice(text.indexOf(heading)).split('\n');
  const from = lines.findIndex((line) => /^(\s\*\s)?\| ?-/.test(line));
  const rows = lines.slice(from + 1);
  const end = rows.findIndex((line) => !/^(\s\*\s)?\|/.test(line));
  return rows.slice(0, end).map((line) =>
    line
      .slice(line.indexOf('|') + 1, line.lastIndexOf('|'))
      .split('|')
      .map((cell) => cell.trim()),
  );
}

/** Names of the options of a schema, those of an option's own as `relay.lease`. */
function optionNames(schema: unknown, at = ''): string[] {
  if (schema instanceof z.ZodOptional) return optionNames(schema.unwrap(), at);
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((one) => optionNames(one, at));
  if (!(schema instanceof z.ZodObject)) return [];
  return Object.entries(schema.shape).flatMap(([name, inner]) => [
    at + name,
    ...optionNames(inner, `${at}${name}.`),
  ]);
}

/** The module that an entry of package.json gives. */
function sourceOf(name: string): string {
  if (name === '.') return './src/index.ts';
  if (existsSync(`src/transports/${name.slice(2)}`)) return `./src/transports/${name.slice(2)}/index.ts`;
  return name === './migrations' ? './migrations/index.ts' : `./src/${name.slice(2)}/index.ts`;
}

/** What the compiler says of blocks, by the file that each stands for. */
function faultsIn(names: ReadonlyMap<string, { readonly name: string; readonly code: string }>): string[] {
  const { config } = ts.readConfigFile('tsconfig.json', read) as {
    config: { compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(
    {
      ...config.compilerOptions,
      declaration: false,
      // An application may have it, and what it copies from here must compile there.
      exactOptionalPropertyTypes: true,
      noUnusedLocals: false,
      noUnusedParameters: false,
      paths: Object.fromEntries(
        Object.keys(manifest.exports)
          .filter((name) => name !== './package.json')
          .map((name) => [`nestjs-webhook-inbox${name.slice(1)}`, [sourceOf(name)]]),
      ),
    },
    resolve('.'),
  );
  const host = ts.createCompilerHost(options);
  const readFile = host.readFile.bind(host);
  const fileExists = host.fileExists.bind(host);
  const getSourceFile = host.getSourceFile.bind(host);
  host.readFile = (file) => names.get(resolve(file))?.code ?? readFile(file);
  host.fileExists = (file) => names.has(resolve(file)) || fileExists(file);
  host.getSourceFile = (file, ...rest) => {
    const block = names.get(resolve(file));
    return block === undefined
      ? getSourceFile(file, ...rest)
      : ts.createSourceFile(file, block.code, {
          languageVersion: ts.ScriptTarget.ES2023,
          impliedNodeFormat: ts.ModuleKind.ESNext,
        });
  };
  const program = ts.createProgram([...names.keys()], options, host);
  // An application checks the package's declarations, and not its sources, against its own options: the blocks alone are asked about.
  return [...names].flatMap(([file, { name }]) => {
    const block = program.getSourceFile(file)!;
    return [...program.getSyntacticDiagnostics(block), ...program.getSemanticDiagnostics(block)].map(
      ({ messageText }) => `${name}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`,
    );
  });
}

describe('the docs', () => {
  it('every TypeScript block compiles against the package', () => {
    const all = PAGES.flatMap((page) => blocks(page, 'ts').map((code, index) => ({ page, index, code })));
    const fileOf = (index: number) => `docs-block-${index}`;
    const names = new Map(
      all.map(({ page, index, code }, place) => {
        // A page's first block is its application's module.
        const module = `./${fileOf(place - index)}.js`;
        const name = `${page}${index}`;
        return [
          resolve(`${fileOf(place)}.ts`),
          { name, code: code.replace('./app.module', module) },
        ] as const;
      }),
    );
    expect(names.size).toBeGreaterThan(1);
    expect(faultsIn(names)).toEqual([]);
  }, 300_000);

  it('declared effects are held to their names and payloads, as docs/effects.md says', () => {
    const declared = /^```ts part\n(export interface Receipt .*?)^```/ms.exec(read('docs/effects.md'))![1]!;
    const code = `import type { Enqueue } from 'nestjs-webhook-inbox';
      ${declared}
      export const right = (enqueue: Enqueue) => enqueue('send-receipt', { invoiceId: 'in_1' });
      export const noSuchName = (enqueue: Enqueue) => enqueue('send-recipt', { invoiceId: 'in_1' });
      export const otherPayload = (enqueue: Enqueue) => enqueue('send-receipt', { invoice: 'in_1' });`;
    expect(faultsIn(new Map([[resolve('docs-effects.ts'), { name: 'effects', code }]]))).toEqual([
      expect.stringMatching(/^effects: .*"send-recipt"/),
      expect.stringMatching(/^effects: .*'invoice'/),
    ]);
  }, 300_000);

  it.each(PAGES)('the links of %s lead to files that are there', (page) => {
    const links = [...read(page).matchAll(/\]\(([^)#\s]+)(#[^)]*)?\)/g)]
      .map(([, link]) => link!)
      .filter((link) => !/^[a-z]+:/.test(link));
    expect(links.filter((link) => !existsSync(join(dirname(page), link)))).toEqual([]);
  });

  it.each(PAGES)('the links of %s lead to headings that are there', (page) => {
    const links = [...read(page).matchAll(/\]\(([^)#\s:]*)#([^)]+)\)/g)];
    const broken = links.filter(
      ([, file, anchor]) => !anchors(file === '' ? page : join(dirname(page), file!)).has(anchor!),
    );
    expect(broken.map(([link]) => link)).toEqual([]);
  });

  it('README is short: its first example comes by line 10 and has 30 lines', () => {
    const lines = read('README.md').split('\n');
    const [begin, end] = lines.flatMap((line, at) => (line.startsWith('```') ? [at + 1] : []));
    expect(begin).toBeLessThanOrEqual(10);
    expect(end! - begin! - 1).toBeLessThanOrEqual(30);
    expect(lines.length).toBeLessThanOrEqual(125);
    expect(read('README.md').split(/\s+/).length).toBeLessThanOrEqual(950);
  });

  it.each([
    ['Whoever floods leaves room for the rest.', 'Whoever'],
    ['What was leased ahead of a pause does not begin after it.', 'What'],
    ['A name that nobody knows is refused.', 'nobody'],
    ['It runs whatever the state is.', 'whatever'],
    ['The relay stops what runs.', 'what runs'],
    ['Told once, and again when it is worse.', 'Told'],
    ['The alert comes again only after it fell to half.', 'fell to half'],
    ['Every service above is had so, or injected.', 'had so'],
    [`${'word '.repeat(31)}end.`, '32 words'],
    ['What does it cost?', undefined],
    [`The answer is ${'then '.repeat(20)}503. The next sentence ${'also '.repeat(15)}ends.`, undefined],
    ['An unknown handler name throws `InputRefused`, and the text says the nearest name.', undefined],
  ])('the prose linter reads %j', async (sentence, found) => {
    const faults = await proseFaults(
      'page.md',
      `# Title\n\n- ${sentence}\n\n| a |\n|---|\n| ${sentence} |\n`,
    );
    const texts = new Set(faults.map((fault) => fault.replace(/^.*?: /, '')));
    expect([...texts]).toEqual(found === undefined ? [] : [expect.stringContaining(found)]);
    expect(faults).toHaveLength(found === undefined ? 0 : 2);
  });

  it.each([
    ['/** Nobody waits for it. */', 'Nobody'],
    ['const a = 1; // Whoever reads this.', 'Whoever'],
    [`// A line ${'and '.repeat(20)}\n// its end ${'too '.repeat(15)}.`, '39 words'],
    ['/**\n * Reads it.\n * @param name what it is called\n */', undefined],
    ["const text = '// What is no comment'; /** Plain. */", undefined],
  ])('the linter of comments reads %j', (code, found) => {
    expect(commentFaults('file.ts', code)).toEqual(
      found === undefined ? [] : [expect.stringMatching(new RegExp(`^file\\.ts:1: '?${found}`))],
    );
  });

  it('the prose linter leaves out the lines that programs write', async () => {
    const made = `<!-- chaos -->\n\nWhoever runs this writes it.\n\n<!-- /chaos -->\n`;
    expect(await proseFaults('page.md', made)).toEqual([]);
    expect(await proseFaults('page.md', `${made}\nWhoever runs this reads it.\n`)).toEqual([
      expect.stringMatching(/^page\.md:7: 'Whoever'/),
    ]);
  });

  it.each(PAGES)('the npm scripts that %s names are there', (page) => {
    const named = [...read(page).matchAll(/npm run ([\w:]+)/g)].map(([, name]) => name!);
    expect(named.filter((name) => !(name in manifest.scripts))).toEqual([]);
  });

  it('the table of states is that of core/states.ts', () => {
    const docs = table(read('docs/architecture.md'), '### States of an outbox row');
    expect(docs.map(([state]) => state)).toEqual([...OUTBOX_STATES]);
    expect(docs).toEqual(table(read('src/core/states.ts'), '| state |'));
    expect(read('docs/architecture.md')).toContain(EVENT_STATES.join(' > '));
  });

  it.each<[string, string, readonly string[]]>([
    ['docs/options.md', '## All options', optionNames(optionsSchema)],
    ['docs/sources.md', '## Options of every source', ['secrets', 'dedupe', ...POLICY_NAMES]],
    ['docs/sources.md', '## Options of `hmac`', Object.keys(HMAC_OPTIONS)],
  ])('the table of %s, %s, has a line for each option and no other', (page, heading, known) => {
    expect(known.length).toBeGreaterThan(10);
    const lines = table(read(page), heading).map(([name]) => name!.replaceAll('`', ''));
    expect(lines.toSorted()).toEqual(known.toSorted());
  });

  it('each runtime dependency has its reason, and none has one that is gone', () => {
    const reasons = table(read('docs/architecture.md'), '## Runtime dependencies');
    expect(reasons.map(([name]) => name!.replaceAll('`', ''))).toEqual(Object.keys(manifest.dependencies));
  });
});
