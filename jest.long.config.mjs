import base, { LONG } from './jest.config.mjs';

/** What lasts for minutes: processes that are killed, fail points, the plans of statements on full tables, and the README's commands in another clone. Not part of `npm test`. */
export default {
  ...base,
  testMatch: LONG.map((pattern) => `<rootDir>/${pattern}`),
  testPathIgnorePatterns: [],
};
