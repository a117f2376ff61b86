import base from './jest.config.mjs';

/** The crash programme's tests in processes and at fail points: they last for minutes. Not part of `npm test`. */
export default { ...base, testMatch: ['<rootDir>/test/crash/*.spec.ts'], testPathIgnorePatterns: [] };
