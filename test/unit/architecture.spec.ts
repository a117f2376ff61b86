import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import ts from 'typescript';

/** From the ground up. Imports go down, or sideways without cycles. */
const LAYERS = [
  ['core'],
  ['sources', 'handlers', 'storage', 'effects'],
  ['inbox', 'outbox', 'operator'],
  [
    'http',
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
});
