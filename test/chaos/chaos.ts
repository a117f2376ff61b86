import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { startPostgres } from '../../examples/support/postgres.js';
import type { Verdict } from './check/invariants.js';
import { playMode } from './modes.js';
import { readOptions, type ChaosOptions } from './options.js';
import { Stage } from './play/stage.js';
import { merge, print, record, tell } from './report.js';
import { build, type Build } from './support/build.js';
import { startPgbouncer } from './support/pgbouncer.js';
import { createStageDatabase } from './support/stage-database.js';

/** Plays the stages that have no verdict yet, and judges all of them together. */
async function run(options: ChaosOptions): Promise<number> {
  const { dir, seed, stages } = options;
  const say = (line: string) => console.error(line);
  say(`seed ${seed}, ${stages.length} stages; logs in ${dir}`);
  await mkdir(dir, { recursive: true });
  const built = await build();
  const program = await built.bundled('test/chaos/receiver/main.ts');
  // It is the receivers that are killed; the server lives, and what it has committed stays without a disk.
  const postgres = await startPostgres([
    'max_connections=200',
    'fsync=off',
    'full_page_writes=off',
    // Where a day passes in minutes, a minute between two looks of autovacuum is an hour.
    ...(options.mode === 'soak' ? ['autovacuum_naptime=1s'] : []),
    ...(options.without === 'autovacuum' ? ['autovacuum=off'] : []),
  ]);
  const pooler = options.pgbouncer ? await startPgbouncer(postgres.url) : undefined;
  const startedAt = performance.now();
  const verdicts: Verdict[] = [];
  try {
    if (options.mode !== undefined) {
      const databaseUrl = await createStageDatabase(postgres.url, `chaos_${seed}_${options.mode}`);
      const report = await playMode(options.mode, options, {
        databaseUrl: pooler?.through(databaseUrl) ?? databaseUrl,
        program,
        say,
        judge: () => checker(built, dir, databaseUrl, 'pruned'),
      });
      tell(options, report);
      return report.faults.length === 0 ? 0 : 1;
    }
    for (const [n, { kills, events }] of stages.entries()) {
      const stageDir = join(dir, `stage-${n + 1}`);
      const file = join(stageDir, 'verdict.json');
      if (!existsSync(file)) {
        say(`stage ${n + 1}: ${kills} kills, ${events} events`);
        const databaseUrl = await createStageDatabase(postgres.url, `chaos_${seed}_${n + 1}`);
        const stage = { seed: seed + n, kills, events, adapter: options.adapter, databaseUrl, dir: stageDir };
        await Stage.play({
          ...stage,
          receiversUrl: pooler?.through(databaseUrl) ?? databaseUrl,
          program,
          say,
        });
        await checker(built, stageDir, databaseUrl);
      }
      verdicts.push(readVerdict(stageDir));
    }
  } finally {
    await pooler?.stop();
    await postgres.stop();
    await built.remove();
  }
  const verdict = merge(verdicts);
  const seconds = Math.round((performance.now() - startedAt) / 1000);
  print(options, verdict, seconds);
  if (options.record) record(options, verdict);
  return verdict.faults.length === 0 ? 0 : 1;
}

/** A process of its own: it gets the logs and the tables, and nothing of what this process knows. */
async function checker(built: Build, dir: string, databaseUrl: string, ...more: string[]): Promise<Verdict> {
  const args = [built.path('test/chaos/checker.ts'), dir, databaseUrl, ...more];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0 && code !== 1) throw new Error(`the checker ended with ${code}`);
  return readVerdict(dir);
}

function readVerdict(dir: string): Verdict {
  return JSON.parse(readFileSync(join(dir, 'verdict.json'), 'utf8')) as Verdict;
}

process.exit(await run(readOptions(process.argv.slice(2))));
