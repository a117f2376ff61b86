import { basename, dirname, join } from 'node:path';
import { compact } from './compact.js';
import { LATER, type ModuleParts, type PackageImport, type Place } from './module.parts.js';

/** A file of the build: modules one behind the other, as a function that puts the exports of each into `$m`. */
export interface Bundle {
  readonly file: string;
  readonly code: string;
}

/** The modules that an entry needs and no entry before it, and the file that wires them: of each kind of modules there is one. */
export interface Group {
  readonly entry: string;
  readonly wiring: string;
  readonly bundles: readonly Bundle[];
  readonly packages: readonly PackageImport[];
  /** Wirings of the groups from which it loads modules when they are needed. */
  readonly later: readonly string[];
  /** Wirings of the groups that it takes modules from. */
  readonly uses: readonly string[];
}

export interface Bundled {
  readonly groups: readonly Group[];
  /** What a module is called in `$m`. */
  readonly keyOf: KeyOf;
}

const MAX_BYTES = 100_000;
const META = 'import.meta.url';

/**
 * Bundles modules, each behind all that it imports, in files of `folder`. A bundle imports nothing: it is given the packages, so that ES
 * modules and CommonJS share one text. With a file for each module, in both builds, the package was a third larger to download.
 */
export function bundle(
  modules: ReadonlyMap<string, ModuleParts>,
  entries: readonly string[],
  folder: string,
): Bundled {
  const keyOf = keys([...modules.keys()]);
  const needed = byEntries(modules, entries);
  const wiringOf = new Map(
    needed.flatMap(({ root, own }) => own.map(({ file }) => [file, wiringFile(folder, root)])),
  );
  let bundles = 0;
  const groups = needed.map(({ entry, root, own }) => {
    const wiring = wiringFile(folder, root);
    const used = new Set(own.flatMap(({ uses }) => uses).map((file) => wiringOf.get(file)!));
    return {
      entry,
      wiring,
      bundles: inBundles(own, wiringOf, keyOf).map((texts) => writeBundle(texts, folder, (bundles += 1))),
      packages: own.flatMap(({ packages }) => packages),
      later: [...new Set(own.flatMap(({ later }) => later).map((file) => wiringOf.get(file)!))],
      uses: [...used].filter((file) => file !== wiring),
    };
  });
  return { groups, keyOf };
}

type KeyOf = (file: string) => string;

/** A module is called by its file's name alone where no other file has that name. */
function keys(files: readonly string[]): KeyOf {
  return (file) => {
    const isAlone = files.filter((one) => basename(one) === basename(file)).length === 1;
    return (isAlone ? basename(file) : file.replace(/^src\//, '')).replace(/\.js$/, '');
  };
}

/** Of the modules that `root` needs. */
export function wiringFile(folder: string, root: string): string {
  return `${folder}/${root.replace(/^src\//, '').replaceAll('/', '.')}`;
}

/** What a package's import is called among those that bundles are given. */
export function packageName({ from, isDefault }: PackageImport): string {
  return isDefault ? `default of ${from}` : from;
}

/** What a module needs, and the module: each behind its own imports. */
function inOrder(modules: ReadonlyMap<string, ModuleParts>, root: string): ModuleParts[] {
  const ordered = new Set<ModuleParts>();
  const add = (file: string) => {
    const parts = modules.get(file);
    if (parts === undefined) throw new Error(`${file} is imported, and is not part of the build`);
    if (ordered.has(parts)) return;
    parts.uses.forEach(add);
    ordered.add(parts);
  };
  add(root);
  return [...ordered];
}

interface Needed {
  readonly entry: string;
  readonly root: string;
  readonly own: readonly ModuleParts[];
}

/**
 * What the first entry needs, what the second one needs beside, and so on: an entry loads no more than those before it and itself.
 * What a module loads later comes right behind it, as if it were an entry. Behind `testing` it would be taken for that entry's own, and
 * an application's bundle would hold the testing kit.
 */
function byEntries(modules: ReadonlyMap<string, ModuleParts>, entries: readonly string[]): Needed[] {
  const seen = new Set<ModuleParts>();
  const needed: Needed[] = [];
  const roots = entries.map((entry) => ({ entry, root: entry }));
  for (let next = roots.shift(); next !== undefined; next = roots.shift()) {
    const { entry, root } = next;
    const own = inOrder(modules, root).filter((parts) => !seen.has(parts));
    if (own.length === 0) continue;
    for (const parts of own) seen.add(parts);
    needed.push({ entry, root, own });
    roots.unshift(...own.flatMap(({ later }) => later).map((file) => ({ entry, root: file })));
  }
  return needed;
}

type Wirings = ReadonlyMap<string, string>;

function inBundles(ordered: readonly ModuleParts[], wiringOf: Wirings, keyOf: KeyOf): string[][] {
  const bundles: string[][] = [];
  let scope = new Map<string, string>();
  let bytes = Infinity;
  for (const parts of ordered) {
    if (bytes > MAX_BYTES) {
      bundles.push([]);
      scope = new Map();
      bytes = 0;
    }
    const text = asFunction(parts, scope, wiringOf, keyOf);
    bytes += Buffer.byteLength(text);
    bundles.at(-1)!.push(text);
  }
  return bundles;
}

/**
 * Takes names into the scope of a bundle, once for all its modules: the lines of imports were a tenth of the package. A module's own names
 * come before those. No name of a global is taken, which another module may mean.
 */
function takenInto(scope: Map<string, string>, added: Map<string, string[]>): Place['has'] {
  return (name, from) => {
    if (name in globalThis) return false;
    if (!scope.has(name)) {
      scope.set(name, from);
      added.set(from, [...(added.get(from) ?? []), name]);
    }
    return scope.get(name) === from;
  };
}

/** Named by the path of its source, for those who read it. */
function asFunction(parts: ModuleParts, scope: Map<string, string>, wiringOf: Wirings, keyOf: KeyOf): string {
  const added = new Map<string, string[]>();
  const place: Place = {
    nameOf: (from, isDefault) =>
      wiringOf.has(from)
        ? `$m['${keyOf(from)}']`
        : `$p['${packageName({ from, isDefault: isDefault === true })}']`,
    has: takenInto(scope, added),
  };
  const text = parts
    .lines(place)
    .join('\n')
    .replaceAll(META, `$url('${parts.file}')`)
    .replaceAll(LATER, (_, from: string) => {
      const file = join(dirname(parts.file), from);
      return `$later('${wiringOf.get(file)}', '${keyOf(file)}')`;
    });
  const lines = [...added].map(([from, names]) => `const { ${names.join(', ')} } = ${from};\n`);
  return `${lines.join('')}$m['${keyOf(parts.file)}'] = (() => {\n${text}\n})();`;
}

function writeBundle(texts: readonly string[], folder: string, index: number): Bundle {
  return {
    file: `${folder}/${String(index).padStart(2, '0')}.js`,
    code: compact(`'use strict';\nmodule.exports = ({ $m, $p, $url, $later }) => {\n${texts.join('\n')}\n};`),
  };
}
