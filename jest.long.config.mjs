import base, { CLAIMS, LEASED, LONG } from './jest.config.mjs';

const { testTimeout, maxWorkers, ...project } = base;

/** The specs that `npm test` leaves out, since they last for minutes, and some once more under other options. */
export default {
  testTimeout,
  maxWorkers,
  projects: [
    { ...project, displayName: 'long', testMatch: LONG },
    {
      ...project,
      displayName: 'claims',
      testMatch: CLAIMS,
      setupFiles: ['<rootDir>/test/support/claims-typeorm.mjs'],
    },
    {
      ...project,
      displayName: 'leased',
      testMatch: LEASED,
      setupFiles: ['<rootDir>/test/support/hand-off-off.mjs'],
    },
  ],
};
