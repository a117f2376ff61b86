import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Copy, type Outcome } from './copy.js';
import { recordTable, summary } from './mechanical/report.js';
import { runMechanical } from './mechanical/run.js';
import { MUTANTS, type Mutant } from './mutants.js';

const USAGE = `npm run mutants -- [<part of a name>] [--part <n>/<of>]
npm run mutants -- --mechanical [--file <part of a path>] [--sample <faults of each file>] [--changed] [--minutes <limit>] [--again] [--record]

Plants faults in a copy of the code, one at a time: the tests must notice.

Without --mechanical: the faults of test/mutants/mutants.ts, each with the test that must catch it, and what is recorded of the others.
--part        the nth part of these faults, so that parts can run side by side; all faults of a spec are in one part
--mechanical  faults derived from statements, migrations and checks (test/mutants/mechanical/plan.ts names files and their specs). A result
              stays in test/mutants/results.json until the text of the file, or of the test that noticed the fault, is another. So a run
              goes on where the last one ended, and tries that test first.
  --file      of these files only
  --sample    so many of each file, spread over it
  --changed   with a recorded result that does not hold any more; others are left alone
  --minutes   begins no fault after so many
  --again     also what is known already
  --record    writes the table into docs/reliability.md`;

/** @throws Error when a text to replace is not there exactly once: the mutant has to be written again */
async function textsOf(copy: Copy, { name, edits }: Mutant): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const { file, find, replace } of edits) {
    const text = texts.get(file) ?? (await readFile(join(copy.dir, file), 'utf8'));
    if (text.split(find).length !== 2)
      throw new Error(`mutant '${name}': its text is not in ${file} exactly once:\n${find}`);
    texts.set(
      file,
      text.replace(find, () => replace),
    );
  }
  return texts;
}

/** @param part such as `1/2`: each spec is in one of the parts, which have about as many faults */
function partOf(mutants: readonly Mutant[], part: string): Mutant[] {
  const [, nth, of] = /^([1-9]\d*)\/([1-9]\d*)$/.exec(part) ?? [];
  if (nth === undefined || Number(nth) > Number(of))
    throw new TypeError(`--part: expected <n>/<of> such as 1/2, received '${part}'`);
  const counts = new Map<string, number>();
  for (const { spec } of mutants) counts.set(spec, (counts.get(spec) ?? 0) + 1);
  const parts = Array.from({ length: Number(of) }, () => ({ faults: 0, specs: new Set<string>() }));
  for (const [spec, count] of [...counts].sort(([, a], [, b]) => b - a)) {
    const smallest = parts.reduce((least, one) => (one.faults < least.faults ? one : least));
    smallest.specs.add(spec);
    smallest.faults += count;
  }
  return mutants.filter(({ spec }) => parts[Number(nth) - 1]!.specs.has(spec));
}

/** Returns how many were not caught. */
async function runListed(copy: Copy, mutants: readonly Mutant[]): Promise<number> {
  let caught = 0;
  // Without the fault a test must pass, or it would catch anything: once for each spec.
  const sounds = new Map<string, Map<string, Outcome>>();
  for (const mutant of mutants) {
    const { spec, test } = mutant;
    const tests = mutants.filter((one) => one.spec === spec).map((one) => one.test);
    if (!sounds.has(spec)) sounds.set(spec, await copy.outcomes(spec, [...new Set(tests)]));
    const sound = sounds.get(spec)!.get(test);
    const texts = await textsOf(copy, mutant);
    const mutated = (await copy.with(texts, () => copy.outcomes(spec, [test]))).get(test);
    const isCaught = sound === 'passed' && mutated === 'failed';
    if (isCaught) caught += 1;
    console.log(
      `${isCaught ? 'caught' : `NOT CAUGHT (test without the fault: ${sound}, with it: ${mutated})`}: ` +
        `${mutant.name}, by ${mutant.spec} '${mutant.test}'`,
    );
  }
  console.log(`${caught}/${mutants.length} caught`);
  return mutants.length - caught;
}

async function main(): Promise<number> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      part: { type: 'string', default: '1/1' },
      mechanical: { type: 'boolean', default: false },
      file: { type: 'string' },
      sample: { type: 'string' },
      changed: { type: 'boolean', default: false },
      minutes: { type: 'string' },
      again: { type: 'boolean', default: false },
      record: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    return 0;
  }
  const [wanted] = positionals;
  const listed = partOf(
    MUTANTS.filter(({ name }) => wanted === undefined || name.includes(wanted)),
    values.part,
  );
  const copy = await Copy.make();
  let missed = 0;
  try {
    if (values.mechanical) {
      const { file, sample, changed, minutes, again } = values;
      await runMechanical(copy, {
        file,
        sample: sample === undefined ? undefined : Number(sample),
        changed,
        minutes: minutes === undefined ? Infinity : Number(minutes),
        again,
      });
    } else missed = await runListed(copy, listed);
  } finally {
    await copy.remove();
  }
  if (values.record) await recordTable();
  const unexplained = wanted === undefined ? summary() : 0;
  return missed + unexplained === 0 ? 0 : 1;
}

process.exit(await main());
