import { readFileSync, writeFileSync } from 'node:fs';
import { format, resolveConfig } from 'prettier';

/**
 * Replaces, in the form in which CI wants the page, what stands between `<!-- name -->` and `<!-- /name -->` of a page.
 * @throws Error when the page has no such place
 */
export async function writeFigures(file: string, name: string, lines: readonly string[]): Promise<void> {
  const page = readFileSync(file, 'utf8');
  const start = `<!-- ${name} -->`;
  const end = `<!-- /${name} -->`;
  if (!page.includes(start) || !page.includes(end)) throw new Error(`${file} has no place for '${name}'`);
  const before = page.slice(0, page.indexOf(start) + start.length);
  const made = [before, '', ...lines, '', page.slice(page.indexOf(end))].join('\n');
  writeFileSync(file, await format(made, { ...(await resolveConfig(file)), filepath: file }));
}
