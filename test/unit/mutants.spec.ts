import { readFileSync } from 'node:fs';
import { ACCELERATORS } from '../../bench/support/accelerators.js';
import { textOfTest } from '../mutants/mechanical/proof.js';
import { MUTANTS } from '../mutants/mutants.js';

it.each(MUTANTS)('the fault "$name" can still be planted', ({ edits, spec }) => {
  for (const { file, find } of edits) {
    const places = readFileSync(file, 'utf8').split(find).length - 1;
    expect({ file, find, places }).toEqual({ file, find, places: 1 });
  }
  expect(readFileSync(spec, 'utf8')).toContain('it');
});

it.each(ACCELERATORS)('the accelerator "$name" can still be turned off', ({ off }) => {
  for (const { file, find } of off) {
    const places = readFileSync(file, 'utf8').split(find).length - 1;
    expect({ file, find, places }).toEqual({ file, find, places: 1 });
  }
});

describe('the text of a test that has noticed a fault', () => {
  const test = `it.each(CASES)('takes $kind of %s', () => { expect(1).toBe(1); });`;
  const other = `it('gives', () => undefined);`;

  it('is the same beside other tests of its spec', () => {
    expect(textOfTest(`describe('a store', () => { ${other} ${test} })`, 'a store takes rows of two')).toBe(
      textOfTest(test, 'takes rows of two'),
    );
  });

  it('changes with the test', () => {
    const changed = test.replace('toBe(1)', 'toBe(2)');
    expect(textOfTest(changed, 'takes rows of two')).not.toBe(textOfTest(test, 'takes rows of two'));
  });

  it('is the whole spec for a test that the spec does not spell out', () => {
    expect(textOfTest(test, 'gives')).toBe(test);
  });
});
