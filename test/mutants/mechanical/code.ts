import ts from 'typescript';
import { named, shown, type Edit, type Fault } from './fault.js';
import { faultsOfSql } from './sql.js';

/** Words that only a statement, or a part of one, has. */
const SQL = /\b(?:SELECT|WHERE|UPDATE|DELETE|INSERT|ORDER BY|RETURN|AND NOT)\b|(?:state|id) = |\bAND\b/;
const SHIFTED: Readonly<Partial<Record<ts.SyntaxKind, string>>> = {
  [ts.SyntaxKind.LessThanToken]: '<=',
  [ts.SyntaxKind.LessThanEqualsToken]: '<',
  [ts.SyntaxKind.GreaterThanToken]: '>=',
  [ts.SyntaxKind.GreaterThanEqualsToken]: '>',
};

type Placed = Edit & { readonly place: string };

/** What is derived from a file. */
export interface Kinds {
  /** Statements, or parts of them. */
  readonly sql?: boolean;
  /** Indexes of a migration. */
  readonly indexes?: boolean;
  /** Comparisons of times and counts. */
  readonly comparisons?: boolean;
  /** What is refused: to a person without a right, or of a row in another state. */
  readonly refusals?: boolean;
}

/** The faults of a file, in the order of its text. */
export function faultsOf(file: string, text: string, kinds: Kinds): Fault[] {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const edits: Placed[] = [];
  const visit = (node: ts.Node): void => {
    const found = [
      ...(kinds.sql ? statements(node, text) : []),
      ...(kinds.indexes ? indexes(node, text) : []),
      ...(kinds.comparisons ? comparisons(node, text) : []),
      ...(kinds.refusals ? refusals(node, text) : []),
    ];
    edits.push(...found.map((edit) => ({ ...edit, place: placeOf(node) })));
    node.forEachChild(visit);
  };
  visit(source);
  return named(
    file,
    edits.toSorted((a, b) => a.start - b.start),
  );
}

/** The nearest constant, function or method around a node. */
function placeOf(node: ts.Node): string {
  for (let at: ts.Node | undefined = node; at !== undefined; at = at.parent) {
    const name = nameOf(at);
    if (name !== undefined) return name.getText();
  }
  return 'top';
}

function nameOf(node: ts.Node): ts.Node | undefined {
  if (ts.isMethodDeclaration(node) || ts.isFunctionDeclaration(node) || ts.isGetAccessor(node))
    return node.name;
  return ts.isVariableDeclaration(node) && ts.isSourceFile(node.parent.parent.parent) ? node.name : undefined;
}

function statements(node: ts.Node, text: string): Edit[] {
  if (!ts.isNoSubstitutionTemplateLiteral(node) && !ts.isTemplateExpression(node)) return [];
  // One inside of another is a part of that.
  for (let at = node.parent; !ts.isSourceFile(at); at = at.parent) if (ts.isTemplateExpression(at)) return [];
  const start = node.getStart() + 1;
  const sql = text.slice(start, node.end - 1);
  if (!SQL.test(sql)) return [];
  return faultsOfSql(sql).map((edit) => ({ ...edit, start: edit.start + start, end: edit.end + start }));
}

/** Each `index(…)` and `uniqueIndex(…)` of a list is left out, and each unique one made an ordinary one too. */
function indexes(node: ts.Node, text: string): Edit[] {
  if (!ts.isCallExpression(node) || !/^(?:index|uniqueIndex)$/.test(node.expression.getText())) return [];
  if (!ts.isArrayLiteralExpression(node.parent)) return [];
  const name = node.arguments[0]!.getText();
  const comma = text.indexOf(',', node.end);
  const gone = { what: `without index ${name}`, start: node.getStart(), end: comma + 1, replace: '' };
  if (node.expression.getText() === 'index') return [gone];
  const { expression } = node;
  return [
    gone,
    { what: `${name} is not unique`, start: expression.getStart(), end: expression.end, replace: 'index' },
  ];
}

function comparisons(node: ts.Node, text: string): Edit[] {
  if (!ts.isBinaryExpression(node)) return [];
  const { operatorToken } = node;
  const replace = SHIFTED[operatorToken.kind];
  // An empty list is told from others by no number that could be shifted.
  if (replace === undefined || /\.(?:length|size) > 0$/.test(node.getText())) return [];
  const what = `${operatorToken.getText()} becomes ${replace} in ${shown(text.slice(node.getStart(), node.end))}`;
  return [{ what, start: operatorToken.getStart(), end: operatorToken.end, replace }];
}

/** `if (…) throw`, and `if (…) return` of a refusal: passed over. Rights of the desk become the right to see. */
function refusals(node: ts.Node, text: string): Edit[] {
  if (ts.isIfStatement(node)) {
    const then = ts.isBlock(node.thenStatement) ? node.thenStatement.statements[0] : node.thenStatement;
    const refuses =
      then !== undefined &&
      (ts.isThrowStatement(then) ||
        (ts.isReturnStatement(then) && /^(?:false|undefined|\[\])?$/.test(then.expression?.getText() ?? '')));
    if (!refuses) return [];
    const { expression } = node;
    const condition = text.slice(expression.getStart(), expression.end);
    return [
      {
        what: `passes over if (${shown(condition)})`,
        start: expression.getStart(),
        end: expression.end,
        replace: `false as boolean && (${condition})`,
      },
    ];
  }
  const isRight =
    ts.isPropertyAssignment(node) &&
    ts.isStringLiteral(node.initializer) &&
    ts.isObjectLiteralExpression(node.parent) &&
    ts.isVariableDeclaration(node.parent.parent) &&
    node.parent.parent.name.getText() === 'PERMISSION' &&
    node.initializer.text !== 'view';
  if (!isRight) return [];
  const { initializer } = node;
  return [
    {
      what: `${node.name.getText()} needs 'view'`,
      start: initializer.getStart(),
      end: initializer.end,
      replace: `'view'`,
    },
  ];
}
