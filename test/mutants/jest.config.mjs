import base from '../../jest.config.mjs';

const { globalSetup, globalTeardown, ...rest } = base;
const ownTemplate = { globalSetup, globalTeardown };

/** Each spec, those of `npm run test:long` too, on the template of the run; a fault in a migration needs one of its own. */
export default {
  ...rest,
  ...(process.env.MUTANTS_OWN_TEMPLATE === 'yes' && ownTemplate),
  rootDir: '../..',
  testMatch: ['<rootDir>/test/**/*.spec.ts'],
  testTimeout: 40_000,
};
