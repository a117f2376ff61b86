import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

/** From the ground up. Imports go down, or sideways without cycles. */
const LAYERS = [
  ['core'],
  ['sources', 'handlers', 'storage', 'effects', 'transports'],
  ['inbox', 'outbox', 'operator'],
  [
    'http',
    'consumer',
    'testing',
    'dashboard',
    'index.ts',
    'webhooks.module.ts',
    'lifecycle.module.ts',
    'single.import.ts',
    'one.copy.ts',
  ],
  ['cli', 'schematics'],
];

const files = readdirSync('src', { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .sort();
const text = new Map(files.map((file) => [file, readFileSync(join('src', file), 'utf8')]));
const imports = new Map(files.map((file) => [file, importsOf(file)]));

function importsOf(file: string): string[] {
  return ts
    .preProcessFile(text.get(file)!)
    .importedFiles.map(({ fileName }) => fileName)
    .filter((name) => name.startsWith('.'))
    .map((name) => relative('.', join(dirname(file), name)).replace(/\.js$/, '.ts'));
}

const room = (file: string) => file.split('/')[0]!;
const layer = (file: string) => LAYERS.findIndex((rooms) => rooms.includes(room(file)));

/** The first cycle that a walk along `edges` meets, or undefined. */
function cycle(edges: ReadonlyMap<string, Iterable<string>>): string[] | undefined {
  const done = new Set<string>();
  const walk = (node: string, path: readonly string[]): string[] | undefined => {
    if (path.includes(node)) return [...path.slice(path.indexOf(node)), node];
    if (done.has(node)) return undefined;
    for (const next of edges.get(node) ?? []) {
      const found = walk(next, [...path, node]);
      if (found !== undefined) return found;
    }
    done.add(node);
    return undefined;
  };
  for (const node of edges.keys()) {
    const found = walk(node, []);
    if (found !== undefined) return found;
  }
  return undefined;
}

describe('the architecture', () => {
  it('every file is in a room of a layer', () => {
    expect(files.length).toBeGreaterThan(100);
    expect(files.filter((file) => layer(file) < 0)).toEqual([]);
  });

  it('imports go down, or sideways', () => {
    const upward = [...imports].flatMap(([file, targets]) =>
      targets.filter((target) => layer(target) > layer(file)).map((target) => `${file} imports ${target}`),
    );
    expect(upward).toEqual([]);
  });

  it('no cycle between files', () => {
    expect(cycle(imports)).toBeUndefined();
  });

  it('no cycle between rooms', () => {
    const rooms = new Map<string, Set<string>>();
    for (const [file, targets] of imports) {
      const others = rooms.get(room(file)) ?? new Set();
      for (const target of targets) if (room(target) !== room(file)) others.add(room(target));
      rooms.set(room(file), others);
    }
    expect(cycle(rooms)).toBeUndefined();
  });

  it('a folder holds at most 20 files, so that one can see what is there', () => {
    const counts = new Map<string, number>();
    for (const folder of files.map((file) => dirname(file)))
      counts.set(folder, (counts.get(folder) ?? 0) + 1);
    const crowded = [...counts].filter(([folder, count]) => count > 20 && folder !== 'sources/providers');
    expect(crowded).toEqual([]);
  });

  it('all SQL is in storage', () => {
    const sql = /^[`'"]\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|TRUNCATE|LOCK)\s/;
    const strings = (file: string) => {
      const found: string[] = [];
      const visit = (node: ts.Node): void => {
        if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) found.push(node.getText());
        node.forEachChild(visit);
      };
      visit(ts.createSourceFile(file, text.get(file)!, ts.ScriptTarget.Latest, true));
      return found;
    };
    expect(
      files.filter((file) => room(file) === 'storage' && strings(file).some((s) => sql.test(s))),
    ).not.toEqual([]);
    expect(
      files.filter((file) => room(file) !== 'storage' && strings(file).some((s) => sql.test(s))),
    ).toEqual([]);
  });

  it('the DataSource of a manager, which TypeORM 0.3 names otherwise, is had from dataSourceOf', () => {
    const reads =
      /\bmanager!?\.(?:dataSource|connection)\b|\{[^}]*\b(?:dataSource|connection)\b[^}]*\} = (?:this\.|runner\.)*manager\b/i;
    expect(files.filter((file) => reads.test(text.get(file)!))).toEqual([]);
  });

  it('stores send their statements by own.schema, which names the schema of the tables', () => {
    const sends = /\b(?:manager|statements|runner|dataSource)\.query\(/;
    const stores = files.filter((file) => file.endsWith('.store.ts'));
    expect(stores.length).toBeGreaterThan(15);
    expect(stores.filter((file) => sends.test(text.get(file)!))).toEqual([]);
  });

  it('docs/architecture.md names each room', () => {
    const docs = readFileSync('docs/architecture.md', 'utf8');
    const named = (file: string) => docs.includes(`\`${file.endsWith('.ts') ? file : `${file}/`}\``);
    expect([...new Set(files.map(room))].filter((file) => !named(file))).toEqual([]);
  });

  it('a file has at most 310 lines, and a function at most 60', () => {
    const long = files.filter((file) => text.get(file)!.split('\n').length > 311);
    expect(long).toEqual([]);
    const functions = files.flatMap((file) =>
      functionsOf(file).map(({ name, lines }) => ({ name: `${file} ${name}`, lines })),
    );
    expect(functions.filter(({ lines }) => lines > 60).map(({ name }) => name)).toEqual(LONG_FUNCTIONS);
  });

  it('a class has at most 10 dependencies, and a runner 8', () => {
    const counts = files.flatMap((file) =>
      classesOf(file).map((one) => ({ name: one.name!.text, count: dependenciesOf(one) })),
    );
    const most = (name: string) => (name.endsWith('Runner') && name !== 'JobRunner' ? 8 : 10);
    const crowded = counts.filter(({ name, count }) => count > most(name)).map(({ name }) => name);
    expect(crowded.sort()).toEqual(WIRINGS);
  });

  it('exported classes show documented methods only: others are marked @internal, and no declaration has them', () => {
    const docs = readdirSync('docs')
      .filter((name) => name.endsWith('.md'))
      .map((name) => `docs/${name}`);
    const all = ['README.md', ...docs].map((name) => readFileSync(name, 'utf8')).join('\n');
    const exported = exportedClasses().filter(([name]) => !DOCUMENTED_WHOLE.has(name));
    const shown = exported.flatMap(([name, one]) =>
      publicMethodsOf(one).map((method) => ({ member: `${name}.${method}`, method })),
    );
    expect(shown.length).toBeGreaterThan(15);
    const isDocumented = (method: string) => new RegExp(`[.\`]${method}\\b`).test(all);
    expect(shown.filter(({ method }) => !isDocumented(method)).map(({ member }) => member)).toEqual([]);
  });
});

/** Functions that are one list of cases, or one class for Nest. */
const LONG_FUNCTIONS = [
  'dashboard/dashboard.actions.ts run',
  'dashboard/dashboard.controller.ts dashboardController',
];

/** Classes that only wire others: the module, its lifecycle, and the desk's facade. */
const WIRINGS = ['Lifecycle', 'Operator', 'WebhooksModule'];

/** Classes that docs name as a whole, or whose methods Nest calls. */
const DOCUMENTED_WHOLE = new Set([
  'EventDispatcher',
  'IdempotencyInterceptor',
  'Inspector',
  'Operator',
  'SignatureGuard',
  'Stats',
]);

const parsed = new Map<string, ts.SourceFile>();

function sourceOf(file: string): ts.SourceFile {
  const known = parsed.get(file);
  if (known !== undefined) return known;
  const source = ts.createSourceFile(file, text.get(file)!, ts.ScriptTarget.Latest, true);
  parsed.set(file, source);
  return source;
}

function functionsOf(file: string): { name: string; lines: number }[] {
  const source = sourceOf(file);
  const found: { name: string; lines: number }[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node)) {
      const line = (at: number) => source.getLineAndCharacterOfPosition(at).line;
      found.push({
        name: node.name?.getText() ?? '',
        lines: line(node.getEnd()) - line(node.getStart()) + 1,
      });
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

function classesOf(file: string): ts.ClassDeclaration[] {
  return sourceOf(file).statements.filter(ts.isClassDeclaration);
}

function dependenciesOf({ members }: ts.ClassDeclaration): number {
  return members.find(ts.isConstructorDeclaration)?.parameters.length ?? 0;
}

/** The classes that the package exports, with their declarations. */
function exportedClasses(): (readonly [string, ts.ClassDeclaration])[] {
  const names = new Set(
    sourceOf('index.ts').statements.flatMap((statement) =>
      ts.isExportDeclaration(statement) &&
      !statement.isTypeOnly &&
      statement.exportClause !== undefined &&
      ts.isNamedExports(statement.exportClause)
        ? statement.exportClause.elements.map(({ name }) => name.text)
        : [],
    ),
  );
  return files
    .flatMap(classesOf)
    .filter(({ name }) => names.has(name!.text))
    .map((one) => [one.name!.text, one]);
}

function publicMethodsOf({ members }: ts.ClassDeclaration): string[] {
  return members
    .filter(ts.isMethodDeclaration)
    .filter((method) => !ts.getModifiers(method)?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword))
    .filter((method) => !ts.getJSDocTags(method).some(({ tagName }) => tagName.text === 'internal'))
    .map(({ name }) => name.getText());
}
