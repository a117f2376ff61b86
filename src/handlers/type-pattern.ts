/** Whether an event type matches: exact, or with `*` standing for any text, the empty one and dots included. */
export function typeMatches(pattern: string, type: string): boolean {
  const star = pattern.indexOf('*');
  if (star === -1) return pattern === type;
  const before = pattern.slice(0, star);
  const after = pattern.slice(star + 1);
  return type.length >= before.length + after.length && type.startsWith(before) && type.endsWith(after);
}
