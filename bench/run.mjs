// npm run bench: installs what only the benchmarks need where it is missing, and goes on under the Node that every peer runs on.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const folder = fileURLToPath(new URL('.', import.meta.url));
const node = `${folder}node_modules/node/bin/node`;
if (!existsSync(node)) run('npm', ['ci'], folder);
run(
  node,
  ['--import', '@swc-node/register/esm-register', `${folder}main.ts`, ...process.argv.slice(2)],
  fileURLToPath(new URL('..', import.meta.url)),
);

function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: 'inherit' });
  if (error) throw error;
  if (status !== 0) process.exit(status ?? 1);
}
