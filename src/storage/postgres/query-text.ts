import { headOf } from '../../core/event.js';

/** The longest text of a query in logs and alerts. */
const MAX_TOLD = 80;
/** The length of it that is read: one may be of megabytes. */
const MAX_READ = 4_000;

/** Parts that are left out of a query, each to its end or to the query's. */
const LEFT_OUT = new RegExp(
  [
    // Names in quotes stay: a quote in one of them opens no literal. Nor does one in a comment.
    /(?<name>"[^"]*"?)/,
    /(?<comment>--[^\n]*|\/\*[^]*?(?:\*\/|$))/,
    /\b[eE]'(?:[^'\\]|\\[^]|'')*(?:'|$)/,
    /'[^']*(?:''[^']*)*(?:'|$)/,
    /(?<![\w$])\$(?<tag>(?:[A-Za-z_]\w*)?)\$[^]*?(?:\$\k<tag>\$|$)/,
    /(?<![\w$])\d[\d.]{4,}/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'g',
);

/** The beginning of a query for logs and error texts, without the values in it, which may be a payload's. */
export function queryText(query: string): string {
  const told = headOf(query, MAX_READ).replace(LEFT_OUT, (_, ...others) => {
    const { name, comment } = others.at(-1) as { name?: string; comment?: string };
    return name ?? (comment === undefined ? `'…'` : '');
  });
  return headOf(told.trim(), MAX_TOLD);
}
