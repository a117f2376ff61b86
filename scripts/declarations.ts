import { join } from 'node:path';
import ts from 'typescript';
import {
  declarationsOf,
  hiddenText,
  isHiddenConstructor,
  originOf,
  publicText,
  statementOf,
} from './declaration.text.js';

const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.NodeNext,
  target: ts.ScriptTarget.ES2023,
  types: ['node'],
  skipLibCheck: true,
  preserveSymlinks: true,
};
/** The file of what several entries need and none exports. */
const SHARED = 'shared';

/** An entry, its module, and the names that it gives while an application runs. */
export interface Entry {
  readonly entry: string;
  readonly file: string;
  readonly names: readonly string[];
}

interface Exports {
  readonly entry: string;
  readonly names: ReadonlySet<string>;
  /** By the names that they are exported by. */
  readonly statements: ReadonlyMap<string, readonly ts.Node[]>;
}

/**
 * One file of declarations for each entry, of the statements that an application can reach; each is in the first entry that exports it.
 * A file for each module made 160 of them, a sixth larger to download.
 * @param folder of what the compiler has made
 * @returns the texts by the names of their files
 * @throws Error where a name would mean two things in a file
 */
export function entryDeclarations(folder: string, entries: readonly Entry[]): Map<string, string> {
  const pathOf = ({ file }: Entry) => join(folder, file.replace(/\.js$/, '.d.ts'));
  const program = ts.createProgram(entries.map(pathOf), OPTIONS);
  const files = program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(folder));
  const checker = program.getTypeChecker();
  const exported = entries.map((one) => exportsOf(one, program.getSourceFile(pathOf(one))!, checker));
  return new Declarations(files, exported, checker).texts();
}

function exportsOf({ entry, names }: Entry, file: ts.SourceFile, checker: ts.TypeChecker): Exports {
  const statements = new Map<string, readonly ts.Node[]>();
  for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(file)!)) {
    const { name, declarations = [] } = originOf(symbol, checker);
    if (name !== symbol.name) throw new Error(`${entry} exports ${name} as ${symbol.name}`);
    statements.set(name, declarations.map(statementOf));
  }
  return { entry, names: new Set(names), statements };
}

class Declarations {
  /** The file that a statement goes to. */
  private readonly home = new Map<ts.Node, string>();
  private readonly exported: ReadonlySet<ts.Node>;

  constructor(
    private readonly files: readonly ts.SourceFile[],
    private readonly entries: readonly Exports[],
    private readonly checker: ts.TypeChecker,
  ) {
    this.exported = new Set(entries.flatMap(({ statements }) => [...statements.values()].flat()));
    for (const { entry, statements } of entries)
      for (const statement of [...statements.values()].flat())
        if (!this.home.has(statement)) this.home.set(statement, entry);
    for (const [statement, users] of this.users())
      this.home.set(statement, users.size === 1 ? [...users][0]! : SHARED);
    this.refuseDoubleNames();
  }

  texts(): Map<string, string> {
    const files = new Set([...this.entries.map(({ entry }) => entry), ...this.home.values()]);
    return new Map([...files].map((file) => [file, this.text(file)]));
  }

  private readonly isPublic = (node: ts.Node) => this.exported.has(statementOf(node));

  /** The entries that need a statement which none exports. */
  private users(): Map<ts.Node, Set<string>> {
    const users = new Map<ts.Node, Set<string>>();
    for (const { entry } of this.entries) {
      const needed = new Set<ts.Node>(this.statementsOf(entry));
      // A set goes on to what is added meanwhile.
      for (const statement of needed)
        for (const hidden of this.namedIn(statement).flatMap((name) => this.ours(name)))
          if (!this.exported.has(hidden)) needed.add(hidden);
      for (const statement of [...needed].filter((one) => !this.exported.has(one)))
        users.set(statement, (users.get(statement) ?? new Set()).add(entry));
    }
    return users;
  }

  private statementsOf(home: string): ts.Statement[] {
    return this.files.flatMap(({ statements }) => statements.filter((one) => this.home.get(one) === home));
  }

  private namedIn(node: ts.Node): ts.Identifier[] {
    if (isHiddenConstructor(node, this.checker, this.isPublic)) return [];
    const found: ts.Identifier[] = ts.isIdentifier(node) ? [node] : [];
    ts.forEachChild(node, (child) => void found.push(...this.namedIn(child)));
    return found;
  }

  /** Statements of this package that declare a name. */
  private ours(name: ts.Identifier): ts.Node[] {
    return declarationsOf(name, this.checker)
      .map(statementOf)
      .filter((one) => !ts.isSourceFile(one) && this.files.includes(one.getSourceFile()));
  }

  /** A name of two modules, or of ours and of a package or the language, would mean the other thing in one file. */
  private refuseDoubleNames(): void {
    const declared = new Map<string, ts.SourceFile>();
    for (const statement of this.home.keys())
      for (const name of namesOf(statement)) {
        const file = statement.getSourceFile();
        const other = declared.get(name) ?? file;
        if (other !== file) throw new Error(`${name} is declared in ${file.fileName} and ${other.fileName}`);
        declared.set(name, file);
      }
    for (const name of [...this.home.keys()].flatMap((statement) => this.namedIn(statement)))
      if (declared.has(name.text) && this.ours(name).length === 0)
        throw new Error(`${name.getSourceFile().fileName} names a ${name.text} that is not ours`);
  }

  private text(home: string): string {
    const own = this.statementsOf(home);
    const entry = this.entries.find((one) => one.entry === home);
    const names = own.flatMap((statement) => this.namedIn(statement));
    const types = new Set(own.filter((one) => this.isOnlyType(one, entry)).flatMap(namesOf));
    return [
      ...this.packageImports(names),
      ...this.ownImports(home, names),
      ...(entry === undefined ? [] : this.handedOn(entry)),
      ...own.map((statement) => this.statementText(statement, entry)),
      `export${types.size === 0 ? '' : ' type'} { ${[...types].join(', ')} };\n`,
    ].join('\n');
  }

  private packageImports(names: readonly ts.Identifier[]): string[] {
    const found = names.flatMap((name): [string, string][] => {
      const [specifier] = this.checker.getSymbolAtLocation(name)?.declarations ?? [];
      if (specifier === undefined || !ts.isImportSpecifier(specifier)) return [];
      const { text: from } = specifier.parent.parent.parent.moduleSpecifier as ts.StringLiteral;
      return from.startsWith('.') ? [] : [[from, specifier.getText().replace(/^type /, '')]];
    });
    // Nest 12 is ESM, and these files are CommonJS: before TypeScript 5.8 only types may be imported across, and only so.
    const mode = (from: string) =>
      from.startsWith('@nestjs/') ? ` with { 'resolution-mode': 'import' }` : '';
    return grouped(found).map(([from, text]) => `import type { ${text} } from '${from}'${mode(from)};`);
  }

  private ownImports(home: string, names: readonly ts.Identifier[]): string[] {
    const found = names.flatMap((name) =>
      this.ours(name)
        .filter((statement) => this.home.get(statement) !== home && namesOf(statement).includes(name.text))
        .map((statement): [string, string] => [this.home.get(statement)!, name.text]),
    );
    return grouped(found).map(([from, text]) => `import type { ${text} } from './${from}.js';`);
  }

  /** What an entry exports that another file declares. */
  private handedOn({ entry, names, statements }: Exports): string[] {
    const found = [...statements].flatMap(([name, [statement]]): [string, string][] => {
      const home = this.home.get(statement!)!;
      return home === entry ? [] : [[home, names.has(name) ? name : `type ${name}`]];
    });
    return grouped(found).map(([from, text]) => `export { ${text} } from './${from}.js';`);
  }

  private isOnlyType(statement: ts.Statement, entry: Exports | undefined): boolean {
    if (entry === undefined || ts.isInterfaceDeclaration(statement) || ts.isTypeAliasDeclaration(statement))
      return false;
    return this.exported.has(statement) && namesOf(statement).every((name) => !entry.names.has(name));
  }

  private statementText(statement: ts.Statement, entry: Exports | undefined): string {
    const isExported = this.exported.has(statement) && !this.isOnlyType(statement, entry);
    const text = this.exported.has(statement)
      ? publicText(statement, this.checker, this.isPublic)
      : hiddenText(statement, this.checker, this.isPublic);
    return text
      .replaceAll(/import\("\.[^"]*"\)\./g, '')
      .replaceAll(/^(?: {4})+/gm, (indent) => '\t'.repeat(indent.length / 4))
      .replace(
        /^(export )?(?=declare |interface |type )/m,
        isExported || entry === undefined ? 'export ' : '',
      );
  }
}

function namesOf(statement: ts.Node): string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  const { name } = statement as ts.DeclarationStatement;
  return name === undefined ? [] : [name.text];
}

/** By the file or package that they are from. */
function grouped(names: readonly (readonly [from: string, name: string])[]): [string, string][] {
  const froms = new Map<string, Set<string>>();
  for (const [from, name] of names) froms.set(from, (froms.get(from) ?? new Set()).add(name));
  return [...froms].map(([from, found]) => [from, [...found].join(', ')]);
}
