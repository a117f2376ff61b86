import { shown, type Edit } from './fault.js';

/** A word, an operator or a bracket of a statement, with how deep in brackets it stands. */
interface Token {
  readonly text: string;
  readonly start: number;
  readonly end: number;
  readonly depth: number;
}

// What a template literal inserts is one token, whatever it is; so are texts, comments and operators.
const TOKEN =
  /\$\{(?:[^{}`]|\{[^{}]*\}|`[^`]*`)*\}|'(?:[^']|'')*'|--[^\n]*|\$\d+|[A-Za-z_][\w.]*|\d+|::|->>|->|<>|<=|>=|=>|\|\||@>|<@|[^\s]/g;

function tokensOf(sql: string): Token[] {
  let depth = 0;
  const tokens: Token[] = [];
  for (const { 0: text, index } of sql.matchAll(TOKEN)) {
    if (text.startsWith('--')) continue;
    if (text === ')') depth -= 1;
    tokens.push({ text, start: index, end: index + text.length, depth });
    if (text === '(') depth += 1;
  }
  return tokens;
}

/** Ends a term, or the list behind ORDER BY, where it stands as deep as that began. */
const ENDS = new Set(
  `AND OR AS WHERE ORDER LIMIT OFFSET GROUP HAVING WINDOW FOR RETURNING UNION JOIN LEFT CROSS INNER ON THEN ELSE WHEN END SET FROM VALUES ;`.split(
    ' ',
  ),
);

/** Index behind the last token of what begins at `from`; commas end it too, unless it is a list. */
function endOf(tokens: readonly Token[], from: number, isList = false): number {
  const { depth } = tokens[from]!;
  for (let at = from; at < tokens.length; at += 1) {
    const { text, depth: here } = tokens[at]!;
    if (here < depth) return at;
    if (here > depth) continue;
    if (ENDS.has(text) || (text === ',' && !isList)) {
      if (text === 'AND' && isBetween(tokens, at)) continue;
      if (at > from) return at;
    }
  }
  return tokens.length;
}

/** Whether an AND belongs to a BETWEEN. */
function isBetween(tokens: readonly Token[], at: number): boolean {
  const { depth } = tokens[at]!;
  for (let before = at - 1; before >= 0 && tokens[before]!.depth >= depth; before -= 1) {
    const { text, depth: here } = tokens[before]!;
    if (here !== depth) continue;
    if (text === 'BETWEEN') return true;
    if (ENDS.has(text)) return false;
  }
  return false;
}

const BEGINS = new Set(['AND', 'WHERE', 'ON', 'HAVING']);
const SHIFTED: Readonly<Record<string, string>> = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' };

/**
 * Each condition made true, each LIMIT lifted, each order turned round, each lock and each SKIP LOCKED left out, each comparison shifted by
 * one. A condition stays in the text, and an order is not left out: PostgreSQL would refuse a parameter that is not used any more, and may
 * give the same order by itself.
 */
export function faultsOfSql(sql: string): Edit[] {
  const tokens = tokensOf(sql);
  return tokens.flatMap((token, at) => [
    ...conditions(sql, tokens, token, at),
    ...limits(sql, tokens, token, at),
    ...orders(sql, tokens, token, at),
    ...locks(sql, tokens, token, at),
    ...comparisons(sql, tokens, token, at),
  ]);
}

function conditions(sql: string, tokens: readonly Token[], { text }: Token, at: number): Edit[] {
  const first = tokens[at + 1];
  if (!BEGINS.has(text) || first === undefined || first.text === 'CONFLICT') return [];
  if (text === 'AND' && isBetween(tokens, at)) return [];
  const end = tokens[endOf(tokens, at + 1) - 1]!.end;
  const term = sql.slice(first.start, end);
  if (term === 'true') return [];
  return [
    { what: `without ${shown(`${text} ${term}`)}`, start: first.start, end, replace: `(${term} OR true)` },
  ];
}

function limits(sql: string, tokens: readonly Token[], { text }: Token, at: number): Edit[] {
  const limit = tokens[at + 1];
  if (text !== 'LIMIT' || limit === undefined) return [];
  const end = tokens[endOf(tokens, at + 1) - 1]!.end;
  const value = sql.slice(limit.start, end);
  return [
    {
      what: `without ${shown(`LIMIT ${value}`)}`,
      start: limit.start,
      end,
      replace: `greatest(${value}, 1000000)`,
    },
  ];
}

function orders(sql: string, tokens: readonly Token[], { text }: Token, at: number): Edit[] {
  if (text !== 'ORDER' || tokens[at + 1]?.text !== 'BY' || tokens[at + 2] === undefined) return [];
  const from = at + 2;
  const to = endOf(tokens, from, true);
  const { depth, start } = tokens[from]!;
  const end = tokens[to - 1]!.end;
  const commas = tokens.slice(from, to).filter((one) => one.text === ',' && one.depth === depth);
  const bounds = [start, ...commas.map((comma) => comma.start), end];
  const keys = bounds
    .slice(1)
    .map((bound, nth) => sql.slice(bounds[nth]! + (nth === 0 ? 0 : 1), bound).trim());
  const turned = keys.map((key) =>
    key.endsWith(' DESC') ? key.slice(0, -5) : `${key.replace(/ ASC$/, '')} DESC`,
  );
  return [
    { what: `turned round ${shown(`ORDER BY ${keys.join(', ')}`)}`, start, end, replace: turned.join(', ') },
  ];
}

function locks(sql: string, tokens: readonly Token[], { text, start }: Token, at: number): Edit[] {
  if (text === 'SKIP' && tokens[at + 1]?.text === 'LOCKED')
    return [{ what: 'without SKIP LOCKED', start, end: tokens[at + 1]!.end, replace: '' }];
  const next = tokens[at + 1]?.text;
  if (text !== 'FOR' || (next !== 'UPDATE' && next !== 'SHARE' && next !== 'NO')) return [];
  const { depth } = tokens[at]!;
  let to = at + 1;
  while (
    tokens[to]?.depth === depth &&
    /^(?:UPDATE|SHARE|NO|KEY|OF|SKIP|LOCKED|[a-z])$/.test(tokens[to]!.text)
  )
    to += 1;
  const end = tokens[to - 1]!.end;
  return [{ what: `without ${shown(sql.slice(start, end))}`, start, end, replace: '' }];
}

function comparisons(sql: string, tokens: readonly Token[], token: Token, at: number): Edit[] {
  const replace = SHIFTED[token.text];
  if (replace === undefined) return [];
  const around = shown(
    sql.slice(tokens[Math.max(0, at - 2)]!.start, tokens[Math.min(tokens.length - 1, at + 3)]!.end),
  );
  return [
    { what: `${token.text} becomes ${replace} in ${around}`, start: token.start, end: token.end, replace },
  ];
}
