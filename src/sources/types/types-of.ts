/** Event types from a text: a line is a list of them, or their common beginning, which ends with '.' or '/', and a list of the ends. */
export function typesOf(text: string): readonly string[] {
  const lines = text.trim().split('\n');
  return lines.flatMap((line) => {
    const [first = '', ...rest] = line.trim().split(' ');
    return /[./]$/.test(first) ? rest.map((end) => first + end) : [first, ...rest];
  });
}
