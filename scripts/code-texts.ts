import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import ts from 'typescript';

/** A sentence that the package says: its text with `x` for each value, and its place. */
export interface CodeText {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** Fewer words are names, keys and formats. */
const MIN_WORDS = 4;
const IS_SQL =
  /\b(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|DROP|WITH|GRANT|RETURNING|SET LOCAL|FROM|WHERE)\b/;

/** Files whose strings are lists and templates. */
const NO_PROSE =
  /^(?:sources\/types\/|sources\/signing\/secret-check|schematics\/|storage\/.*\.sql)|\.tables\./;

/** The texts of errors, log lines and screens below a folder: each string of several words that is no SQL. */
export function codeTexts(folder: string): CodeText[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => /\.tsx?$/.test(name) && !NO_PROSE.test(name))
    .toSorted()
    .flatMap((name) => textsOf(join(folder, name)));
}

function textsOf(file: string): CodeText[] {
  const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.Latest, true);
  const found: CodeText[] = [];
  const visit = (node: ts.Node): void => {
    const text = said(node);
    if (text === undefined) return ts.forEachChild(node, visit);
    const line = source.getLineAndCharacterOfPosition(node.getStart()).line + 1;
    if (text.split(/\s+/).length >= MIN_WORDS && !IS_SQL.test(text)) found.push({ file, line, text });
    // Values of a template may hold sentences of their own.
    for (const value of valuesOf(node)) visit(value);
  };
  visit(source);
  return found;
}

/** The text of a string, a template or a sum of them. */
function said(node: ts.Node): string | undefined {
  if (ts.isStringLiteralLike(node)) return node.text;
  if (ts.isJsxText(node)) return node.text.trim();
  if (ts.isTemplateExpression(node))
    return node.head.text + node.templateSpans.map(({ literal }) => `x${literal.text}`).join('');
  if (!isSum(node)) return undefined;
  const [left, right] = [said(node.left), said(node.right)];
  return left === undefined && right === undefined ? undefined : `${left ?? 'x'}${right ?? 'x'}`;
}

function valuesOf(node: ts.Node): ts.Node[] {
  if (ts.isTemplateExpression(node)) return node.templateSpans.map(({ expression }) => expression);
  if (!isSum(node)) return [];
  return [node.left, node.right].flatMap((side) => (said(side) === undefined ? [side] : valuesOf(side)));
}

function isSum(node: ts.Node): node is ts.BinaryExpression {
  return ts.isBinaryExpression(node) && node.operatorToken.kind === ts.SyntaxKind.PlusToken;
}
