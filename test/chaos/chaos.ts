import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { startPostgres } from '../../examples/support/postgres.js';
import type { Faults, Verdict } from './check/verdict.js';
import { playMode } from './modes.js';
import { readOptions, type ChaosOptions } from './options.js';
import { CLOCKS, clockEnv } from './play/clocks.js';
import { Outages } from './play/outages.js';
import { LoneServer, Pair } from './play/patients.js';
import { Stage } from './play/stage.js';
import { merge, print, record, tell } from './report.js';
import { build, type Build } from './support/build.js';
import { startPgbouncer } from './support/pgbouncer.js';
import { createStageDatabase } from './support/stage-database.js';

const say = (line: string) => console.error(line);

async function run(options: ChaosOptions): Promise<number> {
  say(`seed ${options.seed}, ${options.stages.length} stages; logs in ${options.dir}`);
  await mkdir(options.dir, { recursive: true });
  const built = await build();
  const startedAt = performance.now();
  let verdict: Verdict;
  try {
    const program = await built.bundled('test/chaos/receiver/main.ts');
    if (options.mode !== undefined) return await anotherMode(options.mode, options, built, program);
    verdict =
      options.faults === 'kills' || options.faults === 'clocks'
        ? merge(await kills(options, built, program))
        : await outages(options, built, program);
  } finally {
    await built.remove();
  }
  print(options, verdict, Math.round((performance.now() - startedAt) / 1000));
  if (options.record) await record(options, verdict);
  return verdict.faults.length === 0 ? 0 : 1;
}

/** A server for all stages, and what receivers reach it through. It is they who are killed; it lives, and keeps without a disk what it has committed. */
async function withServer<T>(
  { pgbouncer, mode, without }: ChaosOptions,
  work: (serverUrl: string, through: (databaseUrl: string) => string) => Promise<T>,
): Promise<T> {
  const postgres = await startPostgres([
    'max_connections=200',
    'fsync=off',
    'full_page_writes=off',
    // Where a day passes in minutes, a minute between two looks of autovacuum is an hour.
    ...(mode === 'soak' ? ['autovacuum_naptime=1s'] : []),
    ...(without === 'autovacuum' ? ['autovacuum=off'] : []),
  ]);
  try {
    const pooler = pgbouncer ? await startPgbouncer(postgres.url) : undefined;
    try {
      return await work(postgres.url, (databaseUrl) => pooler?.through(databaseUrl) ?? databaseUrl);
    } finally {
      await pooler?.stop();
    }
  } finally {
    await postgres.stop();
  }
}

async function anotherMode(
  mode: NonNullable<ChaosOptions['mode']>,
  options: ChaosOptions,
  built: Build,
  program: string,
): Promise<number> {
  return withServer(options, async (serverUrl, through) => {
    const databaseUrl = await createStageDatabase(serverUrl, `chaos_${options.seed}_${mode}`);
    const report = await playMode(mode, options, {
      databaseUrl: through(databaseUrl),
      program,
      compile: (source) => built.bundled(source),
      say,
      judge: async () => {
        await checker(built, options.dir, databaseUrl, 'retention');
        return readVerdict(options.dir);
      },
    });
    await tell(options, report);
    return report.faults.length === 0 ? 0 : 1;
  });
}

/** Plays the stages that have no verdict yet; all of them are judged together. */
async function kills(options: ChaosOptions, built: Build, program: string): Promise<Verdict[]> {
  const { dir, seed, adapter, faults, stages, pgbouncer } = options;
  const preload = pathToFileURL(built.path('test/chaos/receiver/clock.ts')).href;
  const clocks = { size: CLOCKS.length, env: (place: number) => clockEnv(CLOCKS[place]!, preload) };
  return withServer(options, async (serverUrl, through) => {
    const verdicts: Verdict[] = [];
    for (const [n, { count, events }] of stages.entries()) {
      const stageDir = join(dir, `stage-${n + 1}`);
      if (!existsSync(verdictFile(stageDir))) {
        say(`stage ${n + 1}: ${count} kills, ${events} events`);
        const databaseUrl = await createStageDatabase(serverUrl, `chaos_${seed}_${n + 1}`);
        const receiversUrl = through(databaseUrl);
        const stage = { seed: seed + n, kills: count, events, adapter, databaseUrl, receiversUrl };
        await Stage.play({ ...stage, dir: stageDir, program, say, ...(faults === 'clocks' ? clocks : {}) });
        await checker(built, stageDir, databaseUrl, faults, pgbouncer ? ['pooled'] : []);
      }
      verdicts.push(readVerdict(stageDir));
    }
    return verdicts;
  });
}

async function outages(options: ChaosOptions, built: Build, program: string): Promise<Verdict> {
  const { dir, seed, adapter, asynchronous, faults } = options;
  const { count, events } = options.stages[0]!;
  const patient = await (faults === 'stops' ? LoneServer : Pair).start(join(dir, 'server.log'), asynchronous);
  try {
    const databaseUrl = await Outages.play(
      { seed, outages: count, events, adapter, dir, program, say },
      patient,
    );
    await checker(built, dir, databaseUrl, faults);
  } finally {
    await patient.remove();
  }
  return readVerdict(dir);
}

/** A process of its own: it gets the logs and the tables, and nothing of what this process knows. */
async function checker(
  built: Build,
  dir: string,
  databaseUrl: string,
  faults: Faults,
  way: readonly string[] = [],
): Promise<void> {
  const args = [built.path('test/chaos/checker.ts'), dir, databaseUrl, faults, ...way];
  const child = spawn(process.execPath, args, { stdio: 'inherit' });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0 && code !== 1) throw new Error(`the checker ended with ${code}`);
}

const verdictFile = (dir: string) => join(dir, 'verdict.json');
const readVerdict = (dir: string) => JSON.parse(readFileSync(verdictFile(dir), 'utf8')) as Verdict;

process.exit(await run(readOptions(process.argv.slice(2))));
