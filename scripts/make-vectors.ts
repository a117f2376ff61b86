import { mkdirSync, writeFileSync } from 'node:fs';
import { mock } from 'node:test';
import { NOW } from '../test/support/signers/index.js';
import { formulaVectors } from '../test/support/vectors/make/formula-vectors.js';
import { handshakeVectors } from '../test/support/vectors/make/handshake-vectors.js';
import { withSdkVerdicts } from '../test/support/vectors/make/sdk-verdicts.js';
import { sdkVectors } from '../test/support/vectors/make/sdk-vectors.js';

/**
 * `npm run vectors:make`: writes `test/vectors/`. Signatures are made with the vendors' npm SDKs where they can sign, and
 * otherwise from the documented formula (`src/sources/signers/`), never with the code that is tested with them. SDKs that
 * verify judge both.
 */
mock.timers.enable({ apis: ['Date'], now: NOW * 1000 });
const files = {
  'sdk.json': await withSdkVerdicts(await sdkVectors()),
  'formula.json': await withSdkVerdicts(formulaVectors()),
  'handshakes.json': handshakeVectors(),
};

mkdirSync('test/vectors', { recursive: true });
for (const [name, vectors] of Object.entries(files)) {
  writeFileSync(
    `test/vectors/${name}`,
    `[\n${vectors.map((vector) => JSON.stringify(vector)).join(',\n')}\n]\n`,
  );
  console.log(`test/vectors/${name}: ${vectors.length} vectors`);
}
