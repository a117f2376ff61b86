import ts from 'typescript';

/**
 * Types of declarations in `folder` that public names are made of, and that no entry exports: an application's own declarations
 * cannot name them (TS2883, TS2742). Private members are for us.
 */
export function forgottenTypes(folder: string, entries: readonly string[]): string[] {
  const program = ts.createProgram(
    entries.map((entry) => `${folder}/${entry}.d.ts`),
    {
      module: ts.ModuleKind.NodeNext,
      target: ts.ScriptTarget.ES2023,
      types: ['node'],
      skipLibCheck: true,
      preserveSymlinks: true,
    },
  );
  const checker = program.getTypeChecker();
  const origin = (symbol: ts.Symbol) =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
  const isOurs = (node: ts.Node) => node.getSourceFile().fileName.startsWith(folder);
  const exported = new Set(
    entries.flatMap((entry) => {
      const file = checker.getSymbolAtLocation(program.getSourceFile(`${folder}/${entry}.d.ts`)!)!;
      return checker.getExportsOfModule(file).map(origin);
    }),
  );
  const forgotten = new Set<string>();
  for (const symbol of exported)
    for (const declaration of (symbol.declarations ?? []).filter(isOurs))
      visit(declaration, (name) => {
        const found = checker.getSymbolAtLocation(name);
        const type = found && origin(found);
        if (type?.declarations?.[0] === undefined || !isOurs(type.declarations[0])) return;
        const isParameter = (type.flags & ts.SymbolFlags.TypeParameter) !== 0;
        if (!isParameter && !exported.has(type)) forgotten.add(`${type.name} of ${symbol.name}`);
      });
  return [...forgotten].sort();
}

/** Calls `see` with the name of each type in the public part of a declaration; of `typeof` none, which is resolved. */
function visit(node: ts.Node, see: (name: ts.Node) => void): void {
  if (ts.canHaveModifiers(node) && node.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword))
    return;
  if (ts.isTypeReferenceNode(node)) see(node.typeName);
  if (ts.isExpressionWithTypeArguments(node)) see(node.expression);
  ts.forEachChild(node, (child) => visit(child, see));
}
