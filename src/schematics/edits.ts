/** TypeScript of the application with an import more, behind its last one. */
export function withImport(text: string, names: string, from: string): string {
  const line = `import { ${names} } from '${from}';\n`;
  if (text.includes(line)) return text;
  const last = [...text.matchAll(/^import [^;]*;[^\n]*\n/gm)].at(-1);
  const at = last === undefined ? 0 : last.index + last[0].length;
  return text.slice(0, at) + line + text.slice(at);
}

/**
 * A module's text with entries more at the end of its `imports`.
 * @returns undefined where no `@Module({…})` with a list of its own can be found
 */
export function withModules(text: string, entries: readonly string[]): string | undefined {
  const decorator = /@Module\(\s*\{/.exec(text);
  if (decorator === null) return undefined;
  const begin = decorator.index + decorator[0].length;
  const list = /\bimports:\s*\[/g;
  list.lastIndex = begin;
  const found = list.exec(text);
  const lines = entries.map((entry) => `    ${entry},\n`).join('');
  if (found === null) {
    if (/\bimports\b/.test(text.slice(begin))) return undefined;
    return `${text.slice(0, begin)}\n  imports: [\n${lines}  ],${text.slice(begin)}`;
  }
  const open = found.index + found[0].length - 1;
  const end = closing(text, open);
  if (end === undefined) return undefined;
  const inside = text
    .slice(open + 1, end)
    .trim()
    .replace(/,$/, '');
  const before = inside === '' ? '' : `    ${inside},\n`;
  return `${text.slice(0, open + 1)}\n${before}${lines}  ${text.slice(end)}`;
}

/**
 * The text with the package's migrations among those of `TypeOrmModule.forRoot({…})`.
 * @returns undefined where its options are not written there
 */
export function withMigrations(text: string): string | undefined {
  const ours = '...webhookInboxMigrations()';
  const options = /TypeOrmModule\.forRoot(?:Async)?\(\s*\{/.exec(text);
  if (options === null) return undefined;
  const open = options.index + options[0].length - 1;
  const end = closing(text, open);
  if (end === undefined) return undefined;
  const inside = text.slice(open, end);
  const list = /\bmigrations:\s*\[/.exec(inside);
  if (list !== null) {
    const at = open + list.index + list[0].length;
    return `${text.slice(0, at)}${ours}${/^\s*\]/.test(text.slice(at)) ? '' : ', '}${text.slice(at)}`;
  }
  const type = /\btype:\s*['"]postgres['"],?/.exec(inside);
  if (type === null || /\bmigrations\b/.test(inside)) return undefined;
  const at = open + type.index + type[0].length;
  const comma = type[0].endsWith(',') ? '' : ',';
  return `${text.slice(0, at)}${comma} migrations: [${ours}],${text.slice(at)}`;
}

/** Where the bracket at `open` is closed; undefined where it is not. Brackets in texts and comments are passed by. */
function closing(text: string, open: number): number | undefined {
  const token =
    /\/\*[^]*?\*\/|\/\/[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`|[[\](){}]/g;
  token.lastIndex = open;
  let depth = 0;
  for (let found = token.exec(text); found !== null; found = token.exec(text)) {
    if ('([{'.includes(found[0])) depth += 1;
    else if (')]}'.includes(found[0])) depth -= 1;
    if (depth === 0) return found.index;
  }
  return undefined;
}
