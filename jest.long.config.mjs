import base, { LONG } from './jest.config.mjs';

/** What lasts for minutes: processes that are killed, fail points, and the plans of statements on full tables. Not part of `npm test`. */
export default {
  ...base,
  testMatch: LONG.map((pattern) => `<rootDir>/${pattern}`),
  testPathIgnorePatterns: [],
};
