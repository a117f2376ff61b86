import { dirname, relative } from 'node:path';
import ts from 'typescript';

/** Where the build puts the compiler's helpers. */
export const HELPERS = 'src/core/helpers.js';

/**
 * Takes the compiler's helpers for decorators out of a file's code into `found`, and imports them. Each of a hundred files has its own
 * copy otherwise, in both builds: 9 kB to download.
 */
export function shareHelpers(file: string, code: string, found: Map<string, string>): string {
  const source = ts.createSourceFile(file, code, ts.ScriptTarget.ES2023, true, ts.ScriptKind.JS);
  const helpers = source.statements.filter(isHelper);
  if (helpers.length === 0) return code;
  for (const helper of helpers) found.set(nameOf(helper), helper.getText());
  const rest = source.statements
    .filter((statement) => !isHelper(statement))
    .map((statement) => statement.getText());
  const path = relative(dirname(file), HELPERS);
  const from = path.startsWith('.') ? path : `./${path}`;
  return `import { ${helpers.map(nameOf).join(', ')} } from '${from}';\n${rest.join('\n')}\n`;
}

/** The module of what was found. */
export function helperModule(found: ReadonlyMap<string, string>): string {
  const texts = [...found.values()].map((text) => text.replace(/\(this && this\.\w+\) \|\| /, ''));
  return `${texts.join('\n')}\nexport { ${[...found.keys()].join(', ')} };\n`;
}

function isHelper(statement: ts.Statement): statement is ts.VariableStatement {
  return ts.isVariableStatement(statement) && /^var __\w+ = \(this && this\.__/.test(statement.getText());
}

function nameOf({ declarationList }: ts.VariableStatement): string {
  return declarationList.declarations[0]!.name.getText();
}
