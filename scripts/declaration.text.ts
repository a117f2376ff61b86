import ts from 'typescript';

/** Such a class is injected: its constructor's parameters are parts that no application can name. */
const FOR_NEST = 'constructor(...forNest: unknown[]);';

/** Whether an entry exports the statement that a declaration is in. */
export type IsPublic = (declaration: ts.Node) => boolean;

interface Edit {
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** A public statement: the constructors of injected classes as `FOR_NEST`, one private name at most, and `undefined` for what is optional. */
export function publicText(statement: ts.Statement, checker: ts.TypeChecker, isPublic: IsPublic): string {
  const constructors = hiddenConstructors(statement, checker, isPublic);
  const optionals = undefinedForOptionals(statement).filter(
    ({ from }) => !constructors.some((edit) => edit.from <= from && from < edit.to),
  );
  return edited(statement, [...constructors, ...privateNames(statement), ...optionals]);
}

/** A statement that no entry exports: its comments are for those who read the sources. */
export function hiddenText(statement: ts.Statement, checker: ts.TypeChecker, isPublic: IsPublic): string {
  return withoutComments(edited(statement, hiddenConstructors(statement, checker, isPublic)));
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
    .filter((member) => isHiddenConstructor(member, checker, isPublic))
    .map((member) => ({ from: member.getStart(), to: member.getEnd(), text: FOR_NEST }));
}

/** Private members of a class but one, which keeps an application from passing another object for it. */
function privateNames(statement: ts.Statement): Edit[] {
  if (!ts.isClassDeclaration(statement)) return [];
  const isPrivate = ({ kind }: ts.ModifierLike) => kind === ts.SyntaxKind.PrivateKeyword;
  return statement.members
    .filter((member) => ts.isPropertyDeclaration(member) || ts.isMethodDeclaration(member))
    .filter((member) => ts.getModifiers(member)?.some(isPrivate))
    .slice(1)
    .map((member) => ({ from: member.getFullStart(), to: member.getEnd(), text: '' }));
}

export function isHiddenConstructor(node: ts.Node, checker: ts.TypeChecker, isPublic: IsPublic): boolean {
  if (!ts.isConstructorDeclaration(node)) return false;
  return node.parameters.some(({ type }) => type && isHidden(type, checker, isPublic));
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
  const declaration = declarationsOf(type.typeName, checker)[0];
  if (declaration === undefined || ts.isTypeParameterDeclaration(declaration)) return false;
  return !declaration.getSourceFile().fileName.includes('/node_modules/') && !isPublic(declaration);
}

/** Where the name at a node is declared, followed through the modules that hand it on. */
export function declarationsOf(node: ts.Node, checker: ts.TypeChecker): readonly ts.Declaration[] {
  const symbol = checker.getSymbolAtLocation(node);
  return symbol === undefined ? [] : (originOf(symbol, checker).declarations ?? []);
}

export function originOf(symbol: ts.Symbol, checker: ts.TypeChecker): ts.Symbol {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
}

/** The statement of a file that a declaration is in. */
export function statementOf(node: ts.Node): ts.Node {
  return ts.isSourceFile(node) || ts.isSourceFile(node.parent) ? node : statementOf(node.parent);
}
