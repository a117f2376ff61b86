import ts from 'typescript';

/**
 * The text of a test, so that what it has shown stays known while other tests are added to its spec. A test that the spec does not spell
 * out, such as one of a shared suite, has the text of the whole spec.
 */
export function textOfTest(spec: string, fullName: string | undefined): string {
  const texts = fullName === undefined ? [] : textsOf(spec, fullName);
  return texts.length === 0 ? spec : texts.join('\n');
}

function textsOf(spec: string, fullName: string): string[] {
  const source = ts.createSourceFile('spec.ts', spec, ts.ScriptTarget.Latest, true);
  const found: string[] = [];
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && /^(?:it|test)\b/.test(node.expression.getText())) {
      const [title] = node.arguments;
      if (title !== undefined && ts.isStringLiteralLike(title) && patternOf(title.text).test(fullName))
        found.push(node.getText());
    }
    node.forEachChild(visit);
  };
  visit(source);
  return found;
}

/** Of the full names of the tests that a title stands for: `%s` and `$name` are filled in by `it.each`. */
function patternOf(title: string): RegExp {
  const parts = title.split(/%[a-zA-Z#]|\$[\w.]+/);
  return new RegExp(`(?:^| )${parts.map(escaped).join('.*')}$`, 's');
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
