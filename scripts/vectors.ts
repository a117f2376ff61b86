import { failureOf } from '../test/support/vectors/verdict.js';
import { readVectors } from '../test/support/vectors/vector.js';

/** `npm run vectors -- FILE…`: verifies vector files through the code of the HTTP guard. Exits with 1 when any fails. */
async function main(files: readonly string[]): Promise<number> {
  if (files.length === 0) {
    console.error('usage: npm run vectors -- FILE…');
    return 2;
  }
  let passed = 0;
  let failed = 0;
  for (const vector of files.flatMap((file) => readVectors(file))) {
    const failure = await failureOf(vector);
    if (failure === undefined) passed++;
    else {
      failed++;
      console.log(`${vector.id} ${vector.name}: ${failure}`);
    }
  }
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
