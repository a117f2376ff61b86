import { coverage } from '../../scripts/requirements.js';

/** Lines whose tests are still to come. */
const OPEN = ['R24'];

it('every requirement has a test that names it', () => {
  const untested = [...coverage('.')].filter(([, files]) => files.length === 0).map(([id]) => id);
  expect(untested.filter((id) => !OPEN.includes(id))).toEqual([]);
});
