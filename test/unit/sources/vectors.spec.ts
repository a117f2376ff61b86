import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { providersByName } from '../../../src/sources/index.js';
import { expectedVerdict, readVectors, type Vector } from '../../support/vectors/vector.js';
import { failureOf } from '../../support/vectors/verdict.js';

const DIRECTORY = 'test/vectors';
const files = readdirSync(DIRECTORY).map((name) => join(DIRECTORY, name));
const vectors = files.flatMap((file) => readVectors(file));

describe.each(files)('%s', (file) => {
  it('is judged as expected', async () => {
    const failures: string[] = [];
    for (const vector of readVectors(file)) {
      const failure = await failureOf(vector);
      if (failure !== undefined) failures.push(`${vector.id} ${vector.name}: ${failure}`);
    }
    expect(failures).toEqual([]);
  });
});

const OTHER = `whsec_${Buffer.from('another secret, of 32 bytes, too').toString('base64')}`;

it('whichever way the format lets them be written', async () => {
  const failures: string[] = [];
  const rewritten = vectors.flatMap((vector) => {
    const { body = '', body_base64 = Buffer.from(body).toString('base64'), secret = '', ...rest } = vector;
    // What is not signed can only be answered with the first of them.
    const secrets = vector.variant === 'challenge' ? [secret, OTHER] : [OTHER, secret];
    const headers = Object.entries(vector.headers);
    return [
      { ...vector, body: undefined, body_base64 },
      ...(secret === '' ? [] : [{ ...rest, body, secrets }]),
      { ...vector, headers: Object.fromEntries(headers.map(([name, value]) => [name.toUpperCase(), value])) },
      { ...vector, headers: Object.fromEntries(headers.map(([name, value]) => [name, [value].flat()])) },
    ];
  });
  for (const vector of rewritten) {
    const failure = await failureOf(vector);
    if (failure !== undefined) failures.push(`${vector.id}: ${failure}`);
  }
  expect(failures).toEqual([]);
});

it('every provider has vectors that are valid and vectors that are not', () => {
  const verdicts = (provider: string) =>
    new Set(vectors.filter((one) => one.provider === provider).map(expectedVerdict));
  for (const provider of providersByName.keys())
    expect([provider, verdicts(provider).size]).toEqual([provider, 2]);
});

it('ids are unique', () => expect(new Set(vectors.map(({ id }) => id)).size).toBe(vectors.length));

describe('npm run vectors', () => {
  const run = (content: readonly Vector[]) => {
    const file = join(mkdtempSync(join(tmpdir(), 'vectors-')), 'vectors.json');
    writeFileSync(file, JSON.stringify(content));
    const { stdout, status } = spawnSync(
      process.execPath,
      ['--import', '@swc-node/register/esm-register', 'scripts/vectors.ts', file],
      { encoding: 'utf8' },
    );
    return { lines: stdout.trimEnd().split('\n'), status };
  };
  const good = vectors.find(({ expect }) => expect === 'valid')!;

  it('prints each failure, the count last, and fails with any', () => {
    const wrong: Vector = { ...good, id: 'wrong-1', expect: 'invalid' };
    const strange: Vector = { ...good, id: 'strange-1', provider: 'no-such-vendor' };
    const { lines, status } = run([good, wrong, strange]);
    expect(lines.filter((line) => line.startsWith('wrong-1') || line.startsWith('strange-1'))).toHaveLength(
      2,
    );
    expect(lines.at(-1)).toBe('1 passed, 2 failed');
    expect(status).toBe(1);
  });

  it('takes the strict verdict where there is one', () => {
    expect(run([{ ...good, expect: 'invalid', strict: 'valid' }])).toMatchObject({
      lines: ['1 passed, 0 failed'],
      status: 0,
    });
  });
});
