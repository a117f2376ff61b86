import { availableParallelism } from 'node:os';

const swc = {
  jsc: {
    target: 'es2023',
    parser: { syntax: 'typescript', decorators: true },
    transform: { legacyDecorator: true, decoratorMetadata: true },
    keepClassNames: true,
  },
  module: { type: 'es6' },
};

/** Run by `npm run test:long`: what kills processes, waits for long times, reads plans of full tables, or builds or starts many applications. */
export const LONG = [
  'crash/*',
  'e2e/bad-handlers',
  'e2e/clone',
  'e2e/command-line',
  'e2e/example-receiver',
  'e2e/fuzz',
  'e2e/host-application',
  'e2e/host-pipelines',
  'e2e/package',
  'e2e/unfinished-bodies',
  'e2e/whole-application',
  'integration/*-plans',
  'integration/destinations',
  'integration/forward-signed',
  'integration/gaps',
  'integration/tenants',
  'integration/business-record',
  'integration/closed-manager',
  'integration/data-sources',
  'integration/doubt',
  'integration/handler-options',
  'integration/outage',
  'integration/replica',
  'integration/places',
  'integration/retention',
  'integration/subscribers',
  'integration/wake-up',
].map((name) => `**/test/${name}.spec.ts`);

/** Run by `npm run test:long` and `npm run test:claims` once more, with each claim in a transaction of TypeORM's. */
export const CLAIMS = [
  'e2e/conflicts',
  'e2e/dedupe',
  'e2e/inline',
  'e2e/provider-retries',
  'integration/claim',
  'integration/closed-manager',
  'integration/commit-in-doubt',
  'integration/group-commit',
].map((name) => `**/test/${name}.spec.ts`);

/** Run on the packed package by `e2e/package`, and on the sources by `jest --config jest.packed.config.mjs`. */
export const PACKED = ['<rootDir>/examples/*/*.spec.ts', '**/test/integration/crash-kit.spec.ts'];

/** Behaviour with a running relay, once more without hand-off (`npm run test:long`): each row is leased. */
export const LEASED = [
  'e2e/own-retries',
  'integration/destinations',
  'integration/handler-options',
  'integration/relay',
  'integration/rounds',
  'integration/tenants',
].map((name) => `**/test/${name}.spec.ts`);

/** Run by `npm run test:engines`: they start servers that `npm test` needs not have. */
export const ENGINES = '**/test/engines/*.spec.ts';

/** @type {import('jest').Config} */
export default {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['@swc/jest', swc] },
  // Sources import './x.js', as nodenext asks; the files are './x.ts'.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  testMatch: [
    '<rootDir>/test/**/*.spec.ts',
    ...[...LONG, ...PACKED, ENGINES].map((pattern) => `!${pattern}`),
  ],
  testTimeout: 60_000,
  // Tests wait for PostgreSQL, processes and times: with a worker for each core, the cores would be idle meanwhile.
  maxWorkers: availableParallelism() + 1,
  globalSetup: '<rootDir>/test/support/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/global-teardown.mjs',
};
