import ts from 'typescript';

/** Words would become one, a number would take a point, signs would become another sign or a comment, and a word the flags of a regex. */
const BLANK_BETWEEN = /[\w$][\w$]|\d\.|[+\-/][+\-/]|\/[\w$]/;

/**
 * Code without the blanks that no token needs. Lines stay, so that a stack trace names a place that one can read: any formatter brings the
 * blanks back.
 */
export function compact(code: string): string {
  const source = ts.createSourceFile('', code, ts.ScriptTarget.ES2023, true, ts.ScriptKind.JS);
  const texts: string[] = [];
  let end = 0;
  for (const token of tokensOf(source)) {
    const between = code.slice(end, token.getStart());
    texts.push(blank(between, code.slice(end - 1, end) + token.getText().slice(0, 1)), token.getText());
    end = token.getEnd();
  }
  return `${texts.join('')}\n`;
}

function tokensOf(node: ts.Node): ts.Node[] {
  const children = node.getChildren();
  if (children.length > 0) return children.flatMap(tokensOf);
  return node.getStart() < node.getEnd() ? [node] : [];
}

function blank(between: string, ends: string): string {
  if (between.includes('\n')) return '\n';
  return between !== '' && BLANK_BETWEEN.test(ends) ? ' ' : '';
}
