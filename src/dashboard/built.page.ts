import { existsSync, readdirSync, readFileSync } from 'node:fs';

const BUILT = '../../dist/dashboard/';

/**
 * The page's files by their names, as `npm run build:dashboard` has made them; undefined where it has not run. The published package has
 * another module in the place of this one (`scripts/build-entries`): that one holds the files, since bundlers take no files along.
 */
export function builtPage(
  folder = new URL(BUILT, import.meta.url),
): Readonly<Record<string, string>> | undefined {
  const assets = new URL('assets/', folder);
  if (!existsSync(assets)) return undefined;
  const names = ['index.html', ...readdirSync(assets).map((name) => `assets/${name}`)];
  return Object.fromEntries(names.map((name) => [name, readFileSync(new URL(name, folder), 'utf8')]));
}
