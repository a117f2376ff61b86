/** Savepoints of this package. */
const OURS = /^"?webhook_(?:inline|checked)"?$/i;

/** White space and comments. Comments in slashes are nested, so that they are counted rather than matched. */
const BLANK = /(?:\s+|--[^\n\r]*)+/y;
const WORD = /[a-z_]+/iy;
/** Parts other than texts in which a semicolon does not end a statement: names, bodies of functions, comments. */
const OPAQUE = /"[^"]*"|(?<![\w$])\$(?<tag>(?:[A-Za-z_]\w*)?)\$[^]*?\$\k<tag>\$|--[^\n\r]*/y;
/** Savepoints' names are searched for in so much of a statement. */
const MAX_HEAD = 300;

/**
 * The first statement of a query that would end the transaction, or set the session's character for all; undefined where there is none.
 * @param single it has values, so that PostgreSQL refuses a second statement
 */
export function controlIn(query: string, single: boolean): string | undefined {
  for (const [word, at] of statementsIn(query, single))
    if (isControl(word, query, at))
      return query
        .slice(at, at + MAX_HEAD)
        .split(';', 1)[0]!
        .trim();
  return undefined;
}

/** Whether a query changes a setting that outlives its transaction on the pool's connection. */
export function setsSession(query: string, single: boolean): boolean {
  // The third parameter says whether it is for the transaction alone; one that is not written as `true` may say no.
  if (/\bset_config\s*\(/i.test(query) && !/,\s*true\s*\)/i.test(query)) return true;
  for (const [word, at] of statementsIn(query, single)) {
    if (word === 'RESET') return true;
    if (word === 'SET' && !/^(?:local|transaction|constraints)$/i.test(headOf(query, at)[1] ?? ''))
      return true;
  }
  return false;
}

/** The first word of each statement of a query, and where it stands. Of a text with one statement no more is read. */
function* statementsIn(query: string, single: boolean): Generator<[word: string, at: number]> {
  let at = 0;
  for (;;) {
    at = afterBlank(query, at);
    if (at >= query.length) return;
    const word = wordAt(query, at);
    yield [word, at];
    if (single) return;
    const end = query.indexOf(';', at);
    // Semicolons in the body of such a function are its own.
    if (end === -1 || (word === 'CREATE' && /\bbegin\s+atomic\b/i.test(query))) return;
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
