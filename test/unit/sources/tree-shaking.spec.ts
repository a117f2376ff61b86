import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import * as catalogue from '../../../src/sources/index.js';
import { providersByName } from '../../../src/sources/index.js';
import { signerOf, sourceOf } from '../../support/signers/index.js';

/** What a bundler makes of an application that imports one function of the catalogue; packages stay outside. */
function bundleOf(exported: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'bundle-'));
  const entry = join(folder, 'entry.ts');
  const config = join(folder, 'vite.config.mjs');
  writeFileSync(entry, `export { ${exported} } from ${JSON.stringify(resolve('src/sources/index.ts'))};\n`);
  const build = { outDir: folder, minify: false, lib: { entry, formats: ['es'], fileName: 'bundle' } };
  const external = '/^(?![./])/';
  writeFileSync(
    config,
    `export default { build: { ...${JSON.stringify(build)}, rollupOptions: { external: ${external} } } };\n`,
  );
  const vite = ['node_modules/vite/bin/vite.js', 'build', '--config', config, '--logLevel', 'error'];
  const { status, stderr } = spawnSync(process.execPath, vite, { encoding: 'utf8' });
  if (status !== 0) throw new Error(stderr);
  return readFileSync(join(folder, 'bundle.js'), 'utf8');
}

const vendors = [...providersByName.keys()].filter((name) => name !== 'hmac' && name !== 'convoy');
const docsOf = (name: string) => sourceOf(signerOf(name)).provider.docs;

// One of the table, one of several in a file, one with keys that are fetched.
it.each(['stripe', 'gitea', 'plaid'])('an application that imports %s gets no other vendor', (name) => {
  const factory = providersByName.get(name);
  const [exported = ''] = Object.entries(catalogue).find(([, value]) => Object.is(value, factory)) ?? [];
  const code = bundleOf(exported);
  const others = vendors.filter((other) => docsOf(other) !== docsOf(name) && code.includes(docsOf(other)));
  expect([code.includes(docsOf(name)), others]).toEqual([true, []]);
});
