/** Scheme and authority of a target in absolute form, which RFC 9112 (3.2.2) wants accepted. */
const AUTHORITY = /^https?:\/\/[^/?#]+/i;

/** The parsed target of a request. */
export interface RequestTarget {
  readonly path: string;
  /** Path and query. */
  readonly url: string;
}

/**
 * The one reading of a request's target, for the body reader, the guard and the direct route. A fragment does not belong to it.
 * @returns undefined for a target that has no path: `*`, or one of another scheme
 */
export function targetOf(text: string): RequestTarget | undefined {
  const rest = text.startsWith('/') ? text : text.replace(AUTHORITY, '');
  if (rest === text && !text.startsWith('/')) return undefined;
  const url = before(rest.startsWith('/') ? rest : `/${rest}`, '#');
  return { path: before(url, '?'), url };
}

function before(text: string, end: string): string {
  const at = text.indexOf(end);
  return at === -1 ? text : text.slice(0, at);
}
