import { dirname, relative } from 'node:path';
import { packageName, type Group } from './bundle.js';
import type { PackageImport } from './module.parts.js';

/**
 * The URL that a module would have as a file of its own in the build. Where an application's bundler has put it elsewhere, it is that
 * file's; and undefined where the bundler has made CommonJS of it.
 */
const URL_OF = (own: string, wiring: string) =>
  `const $url = (file) => ${own}?.replace(/\\/${wiring.replaceAll('.', '\\.').replaceAll('/', '\\/')}$/, () => '/' + file);`;

/** Each load is written out: of a name that is put together, a bundler takes all files along that it may be. */
function laterOf({ wiring, later }: Group, load: (file: string) => string): string {
  if (later.length === 0) return 'const $later = undefined;';
  const loads = later.map((file) => `'${file}': () => ${load(relative(dirname(wiring), file))}`);
  return `const $later = (wiring, module) => ({ ${loads.join(', ')} })[wiring]().then(({ $m }) => $m[module]);`;
}

/** Gives the bundles of a group their packages, as an ES module. */
export function esmWiring(group: Group, cjs: string): string {
  const { wiring, bundles, packages, uses } = group;
  const here = dirname(wiring);
  const named = byName(packages);
  const files = bundles.map(({ file }) => relative(here, `${cjs}/${file}`));
  return `${[
    ...named.map(
      ([, { from, isDefault }], index) => `import ${isDefault ? '' : '* as '}p${index} from '${from}';`,
    ),
    ...uses.map((file, index) => `import { $m as m${index} } from './${relative(here, file)}';`),
    ...files.map((file, index) => `import b${index} from '${file}';`),
    URL_OF('import.meta.url', wiring),
    laterOf(group, (file) => `import('./${file}')`),
    ...filled(
      named.map(([name], index) => `'${name}': p${index}`),
      uses.map((_, index) => `...m${index}`),
      files.map((_, index) => `b${index}`),
    ),
    'export { $m };',
  ].join('\n')}\n`;
}

/** The same as CommonJS. */
export function commonJsWiring(group: Group): string {
  const { wiring, bundles, packages, uses } = group;
  const here = dirname(wiring);
  const required = (file: string) => `require('./${relative(here, file)}')`;
  return `${[
    `'use strict';`,
    URL_OF(`require('node:url').pathToFileURL(__filename).href`, wiring),
    laterOf(group, (file) => `Promise.resolve().then(() => require('./${file}'))`),
    ...filled(
      byName(packages).map(([name, { from }]) => `'${name}': require('${from}')`),
      uses.map((file) => `...${required(file)}.$m`),
      bundles.map(({ file }) => required(file)),
    ),
    'exports.$m = $m;',
  ].join('\n')}\n`;
}

function byName(packages: readonly PackageImport[]): [string, PackageImport][] {
  return [...new Map(packages.map((one) => [packageName(one), one]))];
}

function filled(
  packages: readonly string[],
  modules: readonly string[],
  bundles: readonly string[],
): string[] {
  return [
    `const $p = {\n${packages.map((line) => `  ${line},\n`).join('')}};`,
    `const $m = { ${modules.join(', ')} };`,
    ...bundles.map((each) => `${each}({ $m, $p, $url, $later });`),
  ];
}
