import { readFileSync } from 'node:fs';
import { ACCELERATORS } from '../../bench/support/accelerators.js';
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
