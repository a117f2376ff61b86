import base, { CLAIMS, LONG } from './jest.config.mjs';

const { testTimeout, maxWorkers, ...project } = base;
const EXAMPLES = '<rootDir>/examples/*/*.spec.ts';

/** The specs that `npm test` leaves out, since they last for minutes, those of the examples, and some once more under other options. */
export default {
  testTimeout,
  maxWorkers,
  projects: [
    { ...project, displayName: 'long', testMatch: [...LONG, EXAMPLES] },
    {
      ...project,
      displayName: 'claims',
      testMatch: CLAIMS,
      setupFiles: ['<rootDir>/test/support/claims-typeorm.mjs'],
    },
  ],
};
