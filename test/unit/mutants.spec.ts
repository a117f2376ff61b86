import { readFileSync } from 'node:fs';
import { MUTANTS } from '../mutants/mutants.js';

it.each(MUTANTS)('the fault "$name" can still be planted', ({ edits, spec }) => {
  for (const { file, find } of edits) {
    const places = readFileSync(file, 'utf8').split(find).length - 1;
    expect({ file, find, places }).toEqual({ file, find, places: 1 });
  }
  expect(readFileSync(spec, 'utf8')).toContain('it');
});
