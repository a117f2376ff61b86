import { dirname, join } from 'node:path';
import ts from 'typescript';

/** A module of the build, taken apart: what it imports, and what is left of it as the body of a function. */
export interface ModuleParts {
  readonly file: string;
  /** Files of this package that it imports, by their paths in the build. */
  readonly uses: readonly string[];
  /** Files of this package that it loads by `import(…)`, when they are needed. */
  readonly later: readonly string[];
  readonly packages: readonly PackageImport[];
  /** Given its place in a bundle, the lines of a function that returns the module's exports. */
  readonly lines: (place: Place) => string[];
}

export interface PackageImport {
  readonly from: string;
  /** By `import x from`, or by names. */
  readonly isDefault: boolean;
}

/** The variable of a file of ours, or of a package's import. */
export type NameOf = (from: string, isDefault?: boolean) => string;

/** Where a module is in a bundle. */
export interface Place {
  readonly nameOf: NameOf;
  /** Whether the bundle has `name` of `from` already, for all its modules. */
  readonly has: (name: string, from: string) => boolean;
}
type Line = (place: Place) => string;

/** A module of ours that is loaded when it is needed. */
export const LATER = /\bimport\('(\.[^']+)'\)/g;

/**
 * Takes an ES module apart. Names are taken from their modules at once, which no cycle of modules allows;
 * test/unit/architecture.spec.ts holds that there is none.
 * @throws Error at a form that this build has not met, such as a default export
 */
export function partsOf(file: string, code: string): ModuleParts {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.ES2023, true, ts.ScriptKind.JS);
  const parts = { file, uses: [] as string[], packages: [] as PackageImport[] };
  const lines: Line[] = [];
  const exported: Line[] = [];
  for (const statement of source.statements) {
    if (ts.isImportDeclaration(statement)) lines.push(imported(parts, statement));
    else if (ts.isExportDeclaration(statement)) exported.push(...reExported(parts, statement));
    else lines.push(...declared(file, statement, exported));
  }
  return {
    ...parts,
    later: [...code.matchAll(LATER)].map(([, from]) => join(dirname(file), from!)),
    lines: (place) => [
      ...lines.map((line) => line(place)).filter((line) => line !== ''),
      `return { ${exported.map((line) => line(place)).join(', ')} };`,
    ],
  };
}

type Found = Pick<ModuleParts, 'file'> & {
  readonly uses: string[];
  readonly packages: PackageImport[];
};

/** Notes an import, and gives what its module is called by. */
function note({ file, uses, packages }: Found, specifier: ts.Expression, isDefault = false): Line {
  const { text } = specifier as ts.StringLiteral;
  if (!text.startsWith('.')) {
    packages.push({ from: text, isDefault });
    return ({ nameOf }) => nameOf(text, isDefault);
  }
  const path = join(dirname(file), text);
  uses.push(path);
  return ({ nameOf }) => nameOf(path);
}

function imported(found: Found, { importClause, moduleSpecifier }: ts.ImportDeclaration): Line {
  const { name, namedBindings } = importClause ?? {};
  const from = note(found, moduleSpecifier, name !== undefined);
  if (importClause === undefined) return () => '';
  if (name !== undefined && namedBindings === undefined)
    return (place) => `const ${name.text} = ${from(place)};`;
  if (name !== undefined || namedBindings === undefined) throw unknown(found.file, importClause.getText());
  if (ts.isNamespaceImport(namedBindings))
    return (place) => `const ${namedBindings.name.text} = ${from(place)};`;
  return (place) => taken(namedBindings.elements, from(place), place);
}

function taken(elements: readonly ts.ImportSpecifier[], from: string, place: Place): string {
  const names = elements
    .filter(({ propertyName, name }) => propertyName !== undefined || !place.has(name.text, from))
    .map(({ propertyName, name }) =>
      propertyName === undefined ? name.text : `${propertyName.text}: ${name.text}`,
    );
  return names.length === 0 ? '' : `const { ${names.join(', ')} } = ${from};`;
}

function reExported(found: Found, { exportClause, moduleSpecifier }: ts.ExportDeclaration): Line[] {
  const from = moduleSpecifier && note(found, moduleSpecifier);
  if (exportClause === undefined) return [(place) => `...${from!(place)}`];
  if (!ts.isNamedExports(exportClause)) throw unknown(found.file, exportClause.getText());
  return exportClause.elements.map(({ propertyName, name }) => {
    const own = (propertyName ?? name).text;
    if (from === undefined) return () => (own === name.text ? own : `${name.text}: ${own}`);
    return (place) => `${name.text}: ${from(place)}.${own}`;
  });
}

/** A declaration without its `export`, whose names are given to `exported`. */
function declared(file: string, statement: ts.Statement, exported: Line[]): Line[] {
  const modifiers = ts.canHaveModifiers(statement) ? (ts.getModifiers(statement) ?? []) : [];
  const text = statement.getText();
  if (modifiers[0]?.kind !== ts.SyntaxKind.ExportKeyword) return [() => text];
  if (modifiers.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword))
    throw unknown(file, 'a default export');
  exported.push(...namesOf(file, statement).map((name) => () => name));
  return [() => text.slice('export '.length)];
}

function namesOf(file: string, statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement)) return [statement.name!.text];
  throw unknown(file, statement.getText().slice(0, 80));
}

function unknown(file: string, form: string): Error {
  return new Error(`${file}: this build cannot bundle: ${form}`);
}
