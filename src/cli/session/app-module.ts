import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Type } from '@nestjs/common';
import { didYouMean } from '../../core/options/did-you-mean.js';
import { UsageError } from '../terminal/exit.js';
import { loadTypeScript } from './typescript.js';

const EXAMPLE = '--app dist/app.module.js#AppModule';

/**
 * The application's root module, as `--app file#Class` names it. The class may be left out where the file has one that ends in Module.
 * @throws UsageError
 */
export async function loadAppModule(named: string): Promise<Type> {
  const [file = '', name] = named.split('#', 2);
  const path = resolve(file);
  if (!existsSync(path))
    throw new UsageError(
      `--app: expected a file that is there, such as '${EXAMPLE}', received '${file}' (${path}). Build the application first`,
    );
  await loadTypeScript(path);
  const exported = classesOf((await import(pathToFileURL(path).href)) as Exports);
  const found = name === undefined ? onlyModule(exported, file) : exported.get(name);
  if (found !== undefined) return found;
  throw new UsageError(
    `--app: ${file} exports no class '${name}'${didYouMean(name ?? '', [...exported.keys()])}. Expected ${EXAMPLE}`,
  );
}

interface Exports {
  readonly default?: unknown;
}

/** CommonJS files that are imported may have their exports under `default` alone. */
function classesOf(exports: Exports): Map<string, Type> {
  const inner = typeof exports.default === 'object' && exports.default !== null ? exports.default : {};
  const all: [string, unknown][] = [...Object.entries(inner), ...Object.entries(exports)];
  return new Map(all.filter((one): one is [string, Type] => typeof one[1] === 'function'));
}

function onlyModule(classes: ReadonlyMap<string, Type>, file: string): Type {
  const modules = [...classes].filter(([name]) => name.endsWith('Module'));
  const [only, ...others] = modules;
  if (only !== undefined && others.length === 0) return only[1];
  const names =
    modules.map(([name]) => `${file}#${name}`).join(' or ') || 'a class whose name ends in Module';
  throw new UsageError(`--app: expected the root module's class behind '#': ${names}`);
}
