import { randomUUID } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { transformFile, type Options } from '@swc/core';
import { build as bundle } from 'vite';

/** The repository. */
export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

const SWC: Options = {
  jsc: {
    target: 'es2023',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
    keepClassNames: true,
  },
  module: { type: 'es6' },
  sourceMaps: false,
  swcrc: false,
};
const FOLDERS = ['src', 'migrations', 'examples/support', 'test/chaos', 'test/support'];

/** Clients of engines: a receiver loads the one that it uses. */
const ENGINES = ['amqplib', 'bullmq', '@nats-io/jetstream', '@nats-io/transport-node'];

/** The project as plain JavaScript: a process that is to be started hundreds of times must not compile it each time. */
export interface Build {
  /** The compiled file of a source file, named from the repository's root. */
  path(source: string): string;
  /** The same with all that it imports in one file: a process started from it is up in two thirds of the time. */
  bundled(source: string): Promise<string>;
  remove(): Promise<void>;
}

/** @param from where the sources are; the modules of `node_modules` are the repository's in any case */
export async function build(from = ROOT): Promise<Build> {
  // Below the repository, so that imports of packages are found.
  const out = join(ROOT, 'dist', `chaos-${randomUUID().slice(0, 8)}`);
  for (const folder of FOLDERS) {
    const entries = await readdir(join(from, folder), { recursive: true, withFileTypes: true });
    const files = entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    for (const file of files) await compile(file, join(out, file.slice(from.length)));
  }
  const path = (source: string) => join(out, source.replace(/\.ts$/, '.js'));
  return {
    path,
    bundled: async (source) => {
      const outDir = join(out, 'bundled');
      await bundle({
        configFile: false,
        logLevel: 'error',
        // TypeORM loads pg by its name: the fail points are to be put around the same one.
        ssr: { noExternal: true, external: ['pg', ...ENGINES] },
        build: {
          ssr: true,
          outDir,
          // Another program may lie there.
          emptyOutDir: false,
          minify: false,
          rollupOptions: { input: path(source), output: { codeSplitting: false } },
        },
      });
      return join(outDir, basename(path(source)));
    },
    remove: () => rm(out, { recursive: true, force: true }),
  };
}

/**
 * The same from sources with these texts replaced: a build of another version.
 * @throws Error when a text is not in its file exactly once
 */
export async function buildEdited(
  edits: readonly { readonly file: string; readonly find: string; readonly replace: string }[],
): Promise<Build> {
  const from = await mkdtemp(join(tmpdir(), 'webhook-build-'));
  try {
    for (const folder of FOLDERS) await cp(join(ROOT, folder), join(from, folder), { recursive: true });
    for (const { file, find, replace } of edits) {
      const parts = (await readFile(join(from, file), 'utf8')).split(find);
      if (parts.length !== 2) throw new Error(`${file}: expected this text exactly once: ${find}`);
      await writeFile(join(from, file), parts.join(replace));
    }
    return await build(`${from}/`);
  } finally {
    await rm(from, { recursive: true, force: true });
  }
}

async function compile(file: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  if (!file.endsWith('.ts')) return cp(file, to);
  if (file.endsWith('.d.ts') || file.endsWith('.spec.ts')) return;
  const { code } = await transformFile(file, SWC);
  await writeFile(to.replace(/\.ts$/, '.js'), code);
}
