import ts from 'typescript';

const META = 'import.meta.url';
const TWIN_META = `require('node:url').pathToFileURL(__filename).href`;

/**
 * An ES module of ours as CommonJS. Only imports and exports change, so that the rest is byte for byte the same and an archive holds
 * it nearly for nothing: with the compiler's own `(0, file_js_1.name)(…)` the package is 40 kB more to download.
 * Names are taken from their modules at once, which no cycle of modules allows; test/unit/architecture.spec.ts holds that there is none.
 * @throws Error at a form that this build has not met, such as a default export
 */
export function toCommonJs(file: string, code: string): string {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.ES2023, true, ts.ScriptKind.JS);
  const names: string[] = [];
  const statements = source.statements.map((statement) => {
    if (ts.isImportDeclaration(statement)) return required(file, statement);
    if (ts.isExportDeclaration(statement)) return exported(file, statement);
    return declared(file, statement, names);
  });
  const twin = ["'use strict';", ...statements, ...names.map((name) => `exports.${name} = ${name};`), ''];
  const text = twin.filter((line, at) => line !== '' || at === twin.length - 1).join('\n');
  const result = text.replaceAll(META, TWIN_META);
  if (result.includes('import.meta')) throw unknown(file, 'import.meta other than its url');
  return result;
}

function required(file: string, { importClause, moduleSpecifier }: ts.ImportDeclaration): string {
  const from = `require(${moduleSpecifier.getText()});`;
  if (importClause === undefined) return from;
  const { name, namedBindings } = importClause;
  if (name !== undefined && namedBindings === undefined) return `const ${name.text} = ${from}`;
  if (name === undefined && namedBindings !== undefined && ts.isNamedImports(namedBindings))
    return `const { ${namedBindings.elements.map(binding).join(', ')} } = ${from}`;
  if (name === undefined && namedBindings !== undefined && ts.isNamespaceImport(namedBindings))
    return `const ${namedBindings.name.text} = ${from}`;
  throw unknown(file, importClause.getText());
}

function binding({ propertyName, name }: ts.ImportSpecifier): string {
  return propertyName === undefined ? name.text : `${propertyName.text}: ${name.text}`;
}

function exported(file: string, { exportClause, moduleSpecifier }: ts.ExportDeclaration): string {
  const from = moduleSpecifier && `require(${moduleSpecifier.getText()})`;
  if (exportClause === undefined) return `Object.assign(exports, ${from});`;
  if (!ts.isNamedExports(exportClause)) throw unknown(file, exportClause.getText());
  const names = exportClause.elements.map(({ propertyName, name }) => {
    const own = (propertyName ?? name).text;
    return `exports.${name.text} = ${from === undefined ? own : `${from}.${own}`};`;
  });
  return names.join('\n');
}

/** A declaration without its `export`, whose names are given to `names`. */
function declared(file: string, statement: ts.Statement, names: string[]): string {
  const modifiers = ts.canHaveModifiers(statement) ? (ts.getModifiers(statement) ?? []) : [];
  const [first] = modifiers;
  if (first?.kind !== ts.SyntaxKind.ExportKeyword) return statement.getText();
  if (modifiers.some(({ kind }) => kind === ts.SyntaxKind.DefaultKeyword))
    throw unknown(file, 'a default export');
  names.push(...namesOf(file, statement));
  return statement.getText().slice('export '.length);
}

function namesOf(file: string, statement: ts.Statement): string[] {
  if (ts.isVariableStatement(statement))
    return statement.declarationList.declarations.map(({ name }) => name.getText());
  if (ts.isFunctionDeclaration(statement) || ts.isClassDeclaration(statement)) return [statement.name!.text];
  throw unknown(file, statement.getText().slice(0, 80));
}

function unknown(file: string, form: string): Error {
  return new Error(`${file}: this build cannot say in CommonJS: ${form}`);
}
