import { readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

const OPTIONS: ts.CompilerOptions = {
  module: ts.ModuleKind.NodeNext,
  target: ts.ScriptTarget.ES2023,
  types: ['node'],
  skipLibCheck: true,
  preserveSymlinks: true,
};
/** Such a class is injected: its constructor's parameters are parts that no application can name. */
const FOR_NEST = 'constructor(...forNest: unknown[]);';

/**
 * Leaves in `folder` the declarations that an application can reach from the entries. The others are a third of them, and comments of
 * what no entry exports are for those who read the sources.
 */
export function slimDeclarations(folder: string, entries: readonly string[]): void {
  const roots = entries.map((entry) => join(folder, `${entry}.d.ts`));
  const ours = (program: ts.Program) =>
    program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(folder));
  const program = ts.createProgram(roots, OPTIONS);
  const isPublic = publicDeclarations(program, roots);
  const files = ours(program).filter(({ fileName }) => !roots.includes(fileName));
  const isNamed = namedStatements(files, program.getTypeChecker(), isPublic);
  for (const file of files)
    writeFileSync(file.fileName, slim(file, program.getTypeChecker(), isPublic, isNamed));
  const reached = new Set(ours(ts.createProgram(roots, OPTIONS)).map(({ fileName }) => fileName));
  for (const name of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
    if (name.endsWith('.d.ts') && !reached.has(join(folder, name))) rmSync(join(folder, name));
}

type IsPublic = (declaration: ts.Node) => boolean;

function publicDeclarations(program: ts.Program, roots: readonly string[]): IsPublic {
  const checker = program.getTypeChecker();
  const symbols = roots.flatMap((root) =>
    checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(root)!)!),
  );
  const declarations = new Set(
    symbols.flatMap((symbol) => originOf(symbol, checker).declarations ?? []).map(statementOf),
  );
  return (declaration) => declarations.has(statementOf(declaration));
}

/** The public statements, and those that they name, one by way of another: the others have no use in an application. */
function namedStatements(
  files: readonly ts.SourceFile[],
  checker: ts.TypeChecker,
  isPublic: IsPublic,
): ReadonlySet<ts.Node> {
  const named = new Set<ts.Node>(files.flatMap(({ statements }) => statements.filter(isPublic)));
  const add = (node: ts.Node): void => {
    if (ts.isConstructorDeclaration(node) && isHiddenConstructor(node, checker, isPublic)) return;
    if (ts.isIdentifier(node))
      for (const declaration of declarationsOf(node, checker)) named.add(statementOf(declaration));
    ts.forEachChild(node, add);
  };
  // A set goes on to what is added meanwhile.
  for (const statement of named) if (files.includes(statement.getSourceFile())) add(statement);
  return named;
}

function declarationsOf(node: ts.Identifier, checker: ts.TypeChecker): readonly ts.Declaration[] {
  const symbol = checker.getSymbolAtLocation(node);
  const declarations = (symbol && originOf(symbol, checker).declarations) ?? [];
  return declarations.filter((one) => !ts.isSourceFile(one));
}

function originOf(symbol: ts.Symbol, checker: ts.TypeChecker): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** The statement of a file that a declaration is in. */
function statementOf(node: ts.Node): ts.Node {
  return ts.isSourceFile(node.parent) ? node : statementOf(node.parent);
}

function slim(
  file: ts.SourceFile,
  checker: ts.TypeChecker,
  isPublic: IsPublic,
  isNamed: ReadonlySet<ts.Node>,
): string {
  const isImport = (statement: ts.Statement): statement is ts.ImportDeclaration =>
    ts.isImportDeclaration(statement);
  const kept = file.statements
    .filter((statement) => isNamed.has(statement) || ts.isExportDeclaration(statement))
    .map((statement) =>
      isPublic(statement)
        ? publicText(statement, checker, isPublic)
        : withoutComments(edited(statement, hiddenConstructors(statement, checker, isPublic))),
    );
  // A comment that names a type needs no import of it, which may be gone.
  const names = new Set(withoutComments(kept.join('\n')).match(/[\w$]+/g));
  const imports = file.statements.filter(isImport).map((statement) => used(statement, names));
  return `${[...imports, ...kept].filter((text) => text !== '').join('\n')}\n`;
}

interface Edit {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** A public statement: the constructors of injected classes as `FOR_NEST`, and `undefined` for what is optional. */
function publicText(statement: ts.Statement, checker: ts.TypeChecker, isPublic: IsPublic): string {
  const constructors = hiddenConstructors(statement, checker, isPublic);
  const optionals = undefinedForOptionals(statement).filter(
    ({ from }) => !constructors.some((edit) => edit.from <= from && from < edit.to),
  );
  return edited(statement, [...constructors, ...optionals]);
}

function edited(statement: ts.Statement, edits: readonly Edit[]): string {
  const start = statement.getFullStart();
  const text = edits
    .toSorted((one, other) => other.from - one.from)
    .reduce(
      (result, { from, to, text }) => result.slice(0, from - start) + text + result.slice(to - start),
      statement.getFullText(),
    );
  return text.trimStart();
}

function withoutComments(text: string): string {
  const source = ts.createSourceFile('', text, ts.ScriptTarget.ES2023);
  return ts.createPrinter({ removeComments: true }).printFile(source).trimEnd();
}

function hiddenConstructors(statement: ts.Statement, checker: ts.TypeChecker, isPublic: IsPublic): Edit[] {
  if (!ts.isClassDeclaration(statement)) return [];
  return statement.members
    .filter(ts.isConstructorDeclaration)
    .filter((member) => isHiddenConstructor(member, checker, isPublic))
    .map((member) => ({ from: member.getStart(), to: member.getEnd(), text: FOR_NEST }));
}

function isHiddenConstructor(
  { parameters }: ts.ConstructorDeclaration,
  checker: ts.TypeChecker,
  isPublic: IsPublic,
): boolean {
  return parameters.some(({ type }) => type && isHidden(type, checker, isPublic));
}

/**
 * `timeout?: T` as `timeout?: T | undefined`: under exactOptionalPropertyTypes an application could not hand on a value that it may not
 * have, such as one of its configuration.
 */
function undefinedForOptionals(node: ts.Node): Edit[] {
  const inside: Edit[] = [];
  ts.forEachChild(node, (child) => void inside.push(...undefinedForOptionals(child)));
  if (!isOptionalMember(node) || node.type === undefined) return inside;
  const { questionToken, type } = node;
  const insert = (at: number, text: string): Edit => ({ from: at, to: at, text });
  // Parameters of a method may be narrower in an application; those of a function type may not.
  if (ts.isMethodSignature(node))
    return [
      insert(questionToken.getEnd(), ': { method'),
      ...inside,
      insert(type.getEnd(), ` }['method'] | undefined`),
    ];
  const isUndefined = ({ kind }: ts.Node) => kind === ts.SyntaxKind.UndefinedKeyword;
  if (ts.isUnionTypeNode(type) && type.types.some(isUndefined)) return inside;
  const isFunction = ts.isFunctionTypeNode(type) || ts.isConditionalTypeNode(type);
  const [before, after] = isFunction ? ['(', ')'] : ['', ''];
  return [insert(type.getStart(), before), ...inside, insert(type.getEnd(), `${after} | undefined`)];
}

type Member = ts.PropertySignature | ts.PropertyDeclaration | ts.MethodSignature;

function isOptionalMember(node: ts.Node): node is Member & { readonly questionToken: ts.QuestionToken } {
  const isMember =
    ts.isPropertySignature(node) || ts.isPropertyDeclaration(node) || ts.isMethodSignature(node);
  return isMember && node.questionToken !== undefined;
}

/** Whether a type is one of ours that no entry exports. */
function isHidden(type: ts.TypeNode, checker: ts.TypeChecker, isPublic: IsPublic): boolean {
  if (!ts.isTypeReferenceNode(type)) return false;
  const symbol = checker.getSymbolAtLocation(type.typeName);
  const declaration = symbol && originOf(symbol, checker).declarations?.[0];
  if (declaration === undefined || ts.isTypeParameterDeclaration(declaration)) return false;
  return !declaration.getSourceFile().fileName.includes('/node_modules/') && !isPublic(declaration);
}

/** An import of what is still named. */
function used(statement: ts.ImportDeclaration, names: ReadonlySet<string>): string {
  const bindings = statement.importClause?.namedBindings;
  if (bindings === undefined || !ts.isNamedImports(bindings)) return statement.getText();
  const kept = bindings.elements.filter(({ name }) => names.has(name.text)).map(importedName);
  if (kept.length === 0) return '';
  const { text: from } = statement.moduleSpecifier as ts.StringLiteral;
  // Nest 12 is ESM, and these files are CommonJS: before TypeScript 5.8 only types may be imported across, and only so.
  const mode = from.startsWith('@nestjs/') ? ` with { 'resolution-mode': 'import' }` : '';
  return `import type { ${kept.join(', ')} } from '${from}'${mode};`;
}

function importedName({ propertyName, name }: ts.ImportSpecifier): string {
  return propertyName === undefined ? name.text : `${propertyName.text} as ${name.text}`;
}
