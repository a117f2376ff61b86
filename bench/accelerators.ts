// node --import @swc-node/register/esm-register bench/accelerators.ts [--times N] [--quick] [<part of a name> …]
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ACCELERATORS, type Accelerator } from './support/accelerators.js';
import { figure } from './support/statistics.js';

/**
 * Measures each accelerator on and off. `off` is a copy of the code with the accelerator's switch turned. The copies run in turn, so that
 * a disturbance of the machine hits both. Nothing is stored.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { times: { type: 'string', default: '3' }, quick: { type: 'boolean', default: false } },
});

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const COPIED = ['src', 'bench', 'examples', 'migrations', 'package.json', 'tsconfig.json'];

function copy(edits: Accelerator['off']): string {
  const folder = mkdtempSync(join(tmpdir(), 'webhook-accelerators-'));
  const isSource = (path: string) => !path.includes('node_modules');
  for (const name of COPIED)
    cpSync(join(ROOT, name), join(folder, name), { recursive: true, filter: isSource });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  symlinkSync(join(ROOT, 'bench/node_modules'), join(folder, 'bench/node_modules'));
  for (const { file, find, replace } of edits) {
    const text = readFileSync(join(folder, file), 'utf8');
    if (text.split(find).length !== 2) throw new Error(`${file} has not exactly once: ${find}`);
    writeFileSync(
      join(folder, file),
      text.replace(find, () => replace),
    );
  }
  return folder;
}

/** The contender's values of one run. */
function run(folder: string, { bench, contender, value, away }: Accelerator): number[] {
  const node = join(ROOT, 'bench/node_modules/node/bin/node');
  const args = ['--import', '@swc-node/register/esm-register', 'bench/main.ts', bench, '--only', contender];
  if (values.quick) args.push('--quick');
  if (away !== undefined) args.push('--away', String(away));
  const { stdout, status } = spawnSync(node, args, {
    cwd: folder,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) throw new Error(`the benchmark ended with ${status}`);
  const line = new RegExp(String.raw`^\d+/\d+ ${contender}: .*\b${value} ([\d.]+)`, 'gm');
  return [...stdout.matchAll(line)].map(([, number]) => Number(number));
}

const wanted = ACCELERATORS.filter(
  ({ name }) => positionals.length === 0 || positionals.some((part) => name.includes(part)),
);
for (const accelerator of wanted) {
  const folders = { on: copy([]), off: copy(accelerator.off) };
  const found: Record<keyof typeof folders, number[]> = { on: [], off: [] };
  try {
    for (let nth = 0; nth < Number(values.times); nth += 1)
      for (const which of ['on', 'off'] as const) found[which].push(...run(folders[which], accelerator));
  } finally {
    for (const folder of Object.values(folders)) rmSync(folder, { recursive: true, force: true });
  }
  const [on, off] = [figure(found.on), figure(found.off)];
  const text = ({ median, lowest, highest }: typeof on) => `${median} (${lowest} to ${highest})`;
  console.log(
    `${new Date().toISOString().slice(0, 10)} ${accelerator.name}: ${accelerator.contender}, ${accelerator.value}: ` +
      `on ${text(on)}, off ${text(off)}, on / off ${(on.median / off.median).toFixed(2)}`,
  );
}
