const swc = {
  jsc: {
    target: 'es2023',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
    keepClassNames: true,
  },
  module: { type: 'es6' },
};

/** Run by `npm run test:long`: processes, plans, and what builds or starts many applications. */
export const LONG = [
  'test/crash/*.spec.ts',
  'test/integration/*-plans.spec.ts',
  'test/e2e/{clone,package,host-pipelines}.spec.ts',
];

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', swc] },
  // Sources import './x.js', as nodenext asks; the files are './x.ts'.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  testMatch: ['<rootDir>/test/**/*.spec.ts'],
  testPathIgnorePatterns: [
    '<rootDir>/test/crash/',
    '-plans\\.spec\\.ts$',
    '/(clone|package|host-pipelines)\\.spec\\.ts$',
  ],
  testTimeout: 60_000,
  // Most of the time is PostgreSQL's; one worker less than there are cores, the default, leaves a small machine idle.
  maxWorkers: '100%',
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',
};
