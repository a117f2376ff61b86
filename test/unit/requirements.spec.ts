import { readFileSync } from 'node:fs';
import { coverage, requirementsPage } from '../../scripts/requirements.js';

it('every requirement has a test that names it', () => {
  const untested = [...coverage('.')].filter(([, files]) => files.length === 0).map(([id]) => id);
  expect(untested).toEqual([]);
});

it('docs/requirements.md names the tests of today: `npm run docs:requirements` writes it', () => {
  expect(readFileSync('docs/requirements.md', 'utf8')).toBe(requirementsPage('.'));
});
