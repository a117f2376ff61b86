/** Savepoints of this package. */
const OURS = /^"?webhook_(?:inline|checked)"?$/i;

/** White space and comments. Comments in slashes are nested, so that they are counted rather than matched. */
const BLANK = /(?:\s+|--[^\n\r]*)+/y;
const WORD = /[a-z_]+/iy;
/** Other than texts, what a semicolon may stand in without ending a statement: names, bodies of functions, comments. */
const OPAQUE = /"[^"]*"|(?<![\w$])\$(?<tag>(?:[A-Za-z_]\w*)?)\$[^]*?\$\k<tag>\$|--[^\n\r]*/y;
/** Savepoints' names are looked for in so much of a statement. */
const MAX_HEAD = 300;

/**
 * The first statement of a query that would end the transaction, or outlive it on the pool's connection; undefined where there is none.
 * Of a text with one statement only its first word is read.
 * @param single it has values, so that PostgreSQL refuses a second statement
 */
export function controlIn(query: string, single: boolean): string | undefined {
  let at = 0;
  for (;;) {
    at = afterBlank(query, at);
    if (at >= query.length) return undefined;
    const word = wordAt(query, at);
    if (isControl(word, query, at))
      return query
        .slice(at, at + MAX_HEAD)
        .split(';', 1)[0]!
        .trim();
    if (single) return undefined;
    const end = query.indexOf(';', at);
    // Semicolons in the body of such a function are its own.
    if (end === -1 || (word === 'CREATE' && /\bbegin\s+atomic\b/i.test(query))) return undefined;
    at = afterStatement(query, at);
  }
}

function isControl(word: string, query: string, at: number): boolean {
  const words = () => headOf(query, at);
  switch (word) {
    case 'BEGIN':
    case 'START':
    case 'COMMIT':
    case 'END':
    case 'ABORT':
    case 'DISCARD':
      return true;
    case 'ROLLBACK': {
      const [, ...rest] = words().filter((one) => !/^(?:work|transaction|savepoint)$/i.test(one));
      return rest[0]?.toUpperCase() !== 'TO' || OURS.test(rest[1] ?? '');
    }
    case 'RELEASE':
    case 'SAVEPOINT':
      return OURS.test(words().findLast((one) => !/^(?:release|savepoint)$/i.test(one)) ?? '');
    case 'PREPARE':
      return words()[1]?.toUpperCase() === 'TRANSACTION';
    case 'SET':
      return words()[1]?.toUpperCase() === 'SESSION';
    case 'RESET':
      return /^(?:all|session)\b/i.test(words()[1] ?? '');
    default:
      return false;
  }
}

/** The words that a statement begins with. */
function headOf(query: string, at: number): string[] {
  const [head = ''] = query.slice(at, at + MAX_HEAD).split(';', 1);
  const plain = head.replaceAll(/--[^\n\r]*|\/\*[^]*?\*\//g, ' ');
  return plain.trim().split(/\s+/).slice(0, 5);
}

function wordAt(query: string, at: number): string {
  WORD.lastIndex = at;
  return (WORD.exec(query)?.[0] ?? '').toUpperCase();
}

/** Past white space, comments and empty statements. */
function afterBlank(query: string, from: number): number {
  let at = from;
  for (;;) {
    BLANK.lastIndex = at;
    const blank = BLANK.exec(query);
    if (blank !== null) at += blank[0].length;
    else if (query.startsWith('/*', at)) at = afterComment(query, at);
    else if (query[at] === ';') at += 1;
    else return at;
  }
}

function afterComment(query: string, from: number): number {
  let depth = 0;
  const marks = /\/\*|\*\//g;
  marks.lastIndex = from;
  for (let mark = marks.exec(query); mark !== null; mark = marks.exec(query)) {
    depth += mark[0] === '/*' ? 1 : -1;
    if (depth === 0) return marks.lastIndex;
  }
  return query.length;
}

function afterStatement(query: string, from: number): number {
  const next = /["'$;]|--|\/\*/g;
  next.lastIndex = from;
  for (let found = next.exec(query); found !== null; found = next.exec(query)) {
    const at = found.index;
    if (found[0] === ';') return at + 1;
    if (found[0] === '/*') {
      next.lastIndex = afterComment(query, at);
      continue;
    }
    if (found[0] === "'") {
      next.lastIndex = afterText(query, at);
      continue;
    }
    OPAQUE.lastIndex = at;
    const opaque = OPAQUE.exec(query);
    if (opaque !== null) next.lastIndex = OPAQUE.lastIndex;
  }
  return query.length;
}

/** Mark by mark: one expression for all of it would use up the stack for a text of megabytes. In E'…' a backslash takes the next character. */
function afterText(query: string, from: number): number {
  const marks = /\b[eE]$/.test(query.slice(Math.max(0, from - 2), from)) ? /\\[^]|''|'/g : /''|'/g;
  marks.lastIndex = from + 1;
  for (let mark = marks.exec(query); mark !== null; mark = marks.exec(query))
    if (mark[0] === "'") return marks.lastIndex;
  return query.length;
}
