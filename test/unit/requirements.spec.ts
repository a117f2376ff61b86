import { coverage } from '../../scripts/requirements.js';

it('every requirement has a test that names it', () => {
  const untested = [...coverage('.')].filter(([, files]) => files.length === 0).map(([id]) => id);
  expect(untested).toEqual([]);
});
