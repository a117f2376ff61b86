import { existsSync, readFileSync } from 'node:fs';
import { createRequire, register } from 'node:module';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Hooks of the module loader, which another thread runs. */
const TS_NODE_ESM = 'ts-node/esm';
/** Loaders that applications have, in the order in which they are tried. */
const COMMONJS = ['ts-node/register/transpile-only', '@swc-node/register', 'tsx/cjs'];
const ESM = ['@swc-node/register/esm-register', 'tsx', TS_NODE_ESM];

/**
 * Has Node read a TypeScript file of the application, with the loader that the application itself has installed. Without one, Node's own
 * stripping of types reads it, where its syntax allows that.
 */
export async function loadTypeScript(file: string): Promise<void> {
  if (!/\.[cm]?ts$/.test(file)) return;
  const require = createRequire(file);
  const names = isModule(file) ? ESM : COMMONJS;
  for (const name of names) {
    try {
      const url = pathToFileURL(require.resolve(name)).href;
      if (name === TS_NODE_ESM) register(url);
      else await import(url);
      return;
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }
}

/** As Node and TypeORM's CLI decide it: by the ending, else by the nearest package.json. */
export function isModule(file: string): boolean {
  if (/\.m[tj]s$/.test(file)) return true;
  if (/\.c[tj]s$/.test(file)) return false;
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest))
      return (JSON.parse(readFileSync(manifest, 'utf8')) as { type?: string }).type === 'module';
    if (folder === dirname(folder)) return false;
  }
}

function isMissing(error: unknown): boolean {
  const { code } = Object(error) as { readonly code?: unknown };
  return (
    code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND' || code === 'ERR_PACKAGE_PATH_NOT_EXPORTED'
  );
}
