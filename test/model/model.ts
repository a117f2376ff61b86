import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

interface Model {
  readonly file: string;
  readonly what: string;
  /** Faults that it can be given; the checker must find each. */
  readonly mutants: readonly string[];
}

const MODELS: readonly Model[] = [
  {
    file: 'inbox.pml',
    what: '2 deliveries, 2 workers, 2 crashes, 1 record that is deleted',
    mutants: ['SPLIT_TX', 'NO_FENCE', 'LATE_COUNT', 'NO_KEYS', 'KEY_EXPIRES', 'NO_RECHECK'],
  },
  {
    file: 'takeover.pml',
    what: 'takeover: 2 holders, 1 death, 2 cuts, 1 restart',
    mutants: ['NO_WITHDRAW', 'SHORT_WAIT', 'NO_RESET', 'STALE'],
  },
];
const LIMIT_MS = 120_000;

interface Search {
  readonly errors: number;
  readonly states: number;
}

function run(command: string, args: readonly string[], cwd: string): string {
  const { error, status, stdout, stderr } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    timeout: LIMIT_MS,
  });
  if (error !== undefined && 'code' in error && error.code === 'ENOENT') {
    console.error(`${command} is missing; on Debian: apt-get install spin gcc`);
    process.exit(2);
  }
  if (status !== 0) throw new Error(`${command} ended with ${status}: ${stdout}${stderr}`, { cause: error });
  return stdout;
}

/** Searches every state that the model can come to. */
function search(folder: string, file: string, mutant?: string): Search {
  run('spin', [...(mutant === undefined ? [] : [`-D${mutant}`]), '-a', file], folder);
  run('gcc', ['-O2', '-DSAFETY', '-o', 'pan', 'pan.c'], folder);
  const output = run('./pan', ['-m100000', '-w22'], folder);
  const errors = /errors: (\d+)/.exec(output)?.[1];
  const states = /(\d+) states, stored/.exec(output)?.[1];
  // A search that was cut short has shown nothing.
  if (errors === undefined || states === undefined || output.includes('max search depth too small'))
    throw new Error(`the search did not end:\n${output}`);
  return { errors: Number(errors), states: Number(states) };
}

const folder = mkdtempSync(join(tmpdir(), 'webhook-model-'));
let sound = true;
try {
  for (const { file, what, mutants } of MODELS) {
    copyFileSync(fileURLToPath(new URL(file, import.meta.url)), join(folder, file));
    const { errors, states } = search(folder, file);
    console.log(`${what}: ${states} states, ${errors} errors`);
    sound &&= errors === 0;
    for (const mutant of mutants) {
      const caught = search(folder, file, mutant).errors > 0;
      console.log(`${mutant}: ${caught ? 'caught' : 'NOT CAUGHT'}`);
      sound &&= caught;
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exit(sound ? 0 : 1);
