import { createRequire } from 'node:module';
import { ConfigurationError } from './core/errors.js';

/** One of the builds of this package, ES modules or CommonJS, as its entries give it. */
export interface Copy {
  readonly version: string;
  /** An entry's path, or URL; undefined where a bundler has made CommonJS of an ES module, or the other way round. */
  readonly place: string | undefined;
}

interface FirstCopy extends Copy {
  /** Exports of the entries that were loaded: a bundler leaves no file to load them from. */
  readonly given: Map<string, object>;
}

const LOADED = Symbol.for('nestjs-webhook-inbox');

/** As long as no copy is loaded, there is none. */
interface Shared {
  [LOADED]?: FirstCopy;
}

/**
 * The exports of the copy that this process loaded first. An application may `require` this package while one of its modules `import`s it,
 * or a workspace may hold it twice. Each copy has injection tokens, metadata keys, error classes and async contexts of its own. Handlers
 * declared through one copy would be unknown to the other, and their events would be skipped. So all entries give the first copy's exports.
 * @param own the exports of this copy, for when it is the first
 * @throws ConfigurationError where the first copy has another version
 */
export function oneCopy<T extends object>(entry: string, own: T, copy: Copy): T {
  const shared: typeof globalThis & Shared = globalThis;
  const first = (shared[LOADED] ??= { ...copy, given: new Map<string, object>() });
  if (first.version !== copy.version) throw twoVersions(first, copy);
  if (folderOf(first) === folderOf(copy)) first.given.set(entry, own);
  return (first.given.get(entry) ?? load(entry, first)) as T;
}

function folderOf({ place }: Copy): string | undefined {
  return place?.replace(/[^/\\]*$/, '');
}

/** Here, and not in the entry: a bundler would follow it there, and take the whole folder along. */
function load(entry: string, { place }: Copy): object {
  if (place !== undefined) return createRequire(place)(`./${entry}.js`) as object;
  throw new ConfigurationError(
    'a bundle holds nestjs-webhook-inbox as ES modules and as CommonJS: leave it out of the bundle (external)',
  );
}

function twoVersions(first: Copy, second: Copy): ConfigurationError {
  return new ConfigurationError(
    `two versions of nestjs-webhook-inbox are loaded in one process: ${from(first)} and ${from(second)}. ` +
      `Handlers declared through one are unknown to the other. Install one version: npm ls nestjs-webhook-inbox shows which package requires which version`,
  );
}

function from({ version, place = 'a bundle' }: Copy): string {
  return `${version} from ${place}`;
}
